package config

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxPropertyLine bounds a logical line of a properties file, in bytes.
const maxPropertyLine = 1 << 20

// Property is one key and value with the place where it was written.
type Property struct {
	Key, Value string
	Origin     string // for messages, such as "broker.properties:3"
}

// ReadProperties reads a file in the syntax of java.util.Properties: # and ! begin comments, the key ends at =, : or
// white space, a backslash escapes the next character (\t \n \r \f \uXXXX) and at the end of a line continues it.
// Unlike Java's it reads UTF-8. A key may stand twice: the later one counts. origin names the file in messages.
func ReadProperties(r io.Reader, origin string) ([]Property, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPropertyLine)
	lines.Split(splitPropertyLines)
	var props []Property
	for number := 1; ; {
		first := number
		logical, continued, any := "", true, false
		for continued && lines.Scan() {
			number++
			line := strings.TrimLeft(lines.Text(), " \t\f")
			if !any && (line == "" || line[0] == '#' || line[0] == '!') {
				first = number
				continue
			}
			any = true
			logical, continued = cutContinuation(logical + line)
			if len(logical) > maxPropertyLine {
				return nil, fmt.Errorf("%s:%d: a line with its continuations has more than %d bytes", origin, first, maxPropertyLine)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", origin, number, err)
		}
		if !any {
			return props, nil
		}
		key, value, err := splitProperty(logical)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", origin, first, err)
		}
		props = append(props, Property{key, value, origin + ":" + strconv.Itoa(first)})
	}
}

// ParseAssignment splits "key=value" as given on a command line: white space around both is cut, nothing is escaped.
func ParseAssignment(s string) (Property, error) {
	key, value, ok := strings.Cut(s, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		return Property{}, fmt.Errorf("%q is not of the form key=value", s)
	}
	return Property{key, strings.TrimSpace(value), "command line"}, nil
}

// splitPropertyLines ends lines at \n, \r and \r\n.
func splitPropertyLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for i, b := range data {
		switch {
		case b == '\n':
			return i + 1, data[:i], nil
		case b == '\r' && i+1 < len(data):
			if data[i+1] == '\n' {
				return i + 2, data[:i], nil
			}
			return i + 1, data[:i], nil
		case b == '\r' && atEOF:
			return i + 1, data[:i], nil
		}
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// cutContinuation cuts the backslash that continues a line: one that no other backslash escapes.
func cutContinuation(line string) (string, bool) {
	backslashes := len(line) - len(strings.TrimRight(line, `\`))
	if backslashes%2 == 1 {
		return line[:len(line)-1], true
	}
	return line, false
}

func splitProperty(line string) (key, value string, err error) {
	end, escaped := len(line), false
	for i := range len(line) {
		if !escaped && strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
		escaped = !escaped && line[i] == '\\'
	}
	if key, err = unescapeProperty(line[:end]); err != nil {
		return "", "", err
	}
	rest := strings.TrimLeft(line[end:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	value, err = unescapeProperty(rest)
	return key, value, err
}

func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			if s[i] != '\\' {
				b.WriteByte(s[i])
			}
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, used, err := unescapeUnicode(s[i-1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += used - 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unescapeUnicode reads \uXXXX, or two of them that are a surrogate pair, at the start of s.
func unescapeUnicode(s string) (r rune, used int, err error) {
	unit := func(s string) (rune, bool) {
		if len(s) < 6 || s[:2] != `\u` {
			return 0, false
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(s)
	if !ok {
		return 0, 0, fmt.Errorf(`%.6q: \u must be followed by four hexadecimal digits`, s)
	}
	if low, ok := unit(s[6:]); ok && utf16.IsSurrogate(r) {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return r, 6, nil
}
