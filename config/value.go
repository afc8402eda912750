package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Value is a parsed value of a key: bool, int64 (Int, Short, Long), float64, string (String, Class, Password) or
// []string. A nil Value is null.
type Value any

// Parse reads a value's text form and checks it against the key's range. It gives Kafka's own message as error.
// Source: clients ConfigDef.java, parseValue.
func (k *Key) Parse(text string) (Value, error) {
	v, err := k.parseType(text)
	if err != nil {
		return nil, err
	}
	if k.check != nil {
		if err := k.check(k.Name, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (k *Key) parseType(text string) (Value, error) {
	trimmed := trim(text)
	notA := func() (Value, error) { return nil, invalid(k.Name, text, "Not a number of type "+k.Type.String()) }
	switch k.Type {
	case Boolean:
		switch {
		case strings.EqualFold(trimmed, "true"):
			return true, nil
		case strings.EqualFold(trimmed, "false"):
			return false, nil
		}
		return nil, invalid(k.Name, text, "Expected value to be either true or false")
	case Int, Short, Long:
		n, err := strconv.ParseInt(trimmed, 10, intBits(k.Type))
		if err != nil {
			return notA()
		}
		return n, nil
	case Double:
		f, ok := parseDouble(trimmed)
		if !ok {
			return notA()
		}
		return f, nil
	case List:
		list := splitList(trimmed)
		if k.distinct {
			list = dedupe(list)
		}
		return list, nil
	default:
		return trimmed, nil
	}
}

// Format writes a value in Kafka's text form.
// Source: clients ConfigDef.java, convertToString.
func Format(v Value) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatDouble(v)
	case []string:
		return strings.Join(v, ",")
	case string:
		return v
	}
	return ""
}

func intBits(t Type) int {
	switch t {
	case Short:
		return 16
	case Int:
		return 32
	}
	return 64
}

// trim cuts what Java's String.trim cuts: every character up to U+0020.
func trim(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

// splitList splits at commas with the white space on both sides of them (Java's \s*,\s*).
func splitList(trimmed string) []string {
	if trimmed == "" {
		return nil
	}
	const space = " \t\n\v\f\r"
	list := strings.Split(trimmed, ",")
	for i := range list {
		if i > 0 {
			list[i] = strings.TrimLeft(list[i], space)
		}
		if i < len(list)-1 {
			list[i] = strings.TrimRight(list[i], space)
		}
	}
	return list
}

func dedupe(list []string) []string {
	var out []string
	for _, e := range list {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

// parseDouble takes what Java's Double.parseDouble does, without hexadecimal numbers. A broker reads some as it starts: a regular expression would
// cost more than all of them.
func parseDouble(s string) (float64, bool) {
	unsigned := strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	switch {
	case unsigned == "Infinity" && len(s) <= len("-Infinity"):
		return math.Inf(1 - 2*strings.Count(s, "-")), true
	case unsigned == "NaN" && len(s) <= len("-NaN"):
		return math.NaN(), true
	case s == "" || strings.Trim(s, "0123456789.eEfFdD+-") != "":
		return 0, false // ParseFloat knows words, hexadecimal numbers and underscores that Java does not
	case strings.ContainsAny(s[len(s)-1:], "fFdD"):
		s = s[:len(s)-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange) // out of range gives the nearest infinity, as in Java
}

// formatDouble writes a double as Java's Double.toString: decimal from 10^-3 to below 10^7, else with an exponent.
func formatDouble(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]
	case a == 0 || a >= 1e-3 && a < 1e7:
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

// invalid is Kafka's ConfigException of a name, value and message.
func invalid(name, value, message string) error {
	return fmt.Errorf("Invalid value %s for configuration %s: %s", value, name, message)
}

var isoDuration = pattern(`(?i)^([-+]?)P(?:([-+]?[0-9]+)D)?(?:T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// ParseISODuration reads a duration in the form of java.time.Duration (PnDTnHnMn.nS), as in
// share.auto.offset.reset=by_duration:PT1H. What does not fit into a time.Duration (292 years) gives the nearest one
// that does.
func ParseISODuration(s string) (time.Duration, error) {
	m := isoDuration().FindStringSubmatch(s)
	if m == nil || m[2]+m[3]+m[4]+m[5] == "" || strings.HasSuffix(strings.ToUpper(s), "T") {
		return 0, fmt.Errorf("duration %q is not of the form PnDTnHnMn.nS", s)
	}
	var sum big.Int
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if n, ok := new(big.Int).SetString(strings.TrimPrefix(m[i+2], "+"), 10); ok {
			sum.Add(&sum, n.Mul(n, big.NewInt(int64(unit))))
		}
	}
	if nanos, ok := new(big.Int).SetString((m[6] + "000000000")[:9], 10); ok {
		if strings.HasPrefix(m[5], "-") {
			nanos.Neg(nanos)
		}
		sum.Add(&sum, nanos)
	}
	if m[1] == "-" {
		sum.Neg(&sum)
	}
	switch {
	case sum.IsInt64():
		return time.Duration(sum.Int64()), nil
	case sum.Sign() < 0:
		return math.MinInt64, nil
	}
	return math.MaxInt64, nil
}

// pattern is a regular expression that is compiled when it is needed first.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
