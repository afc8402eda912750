package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// plainModule is the JAAS login module that has PLAIN's users.
const plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"

// PlainUsers reads the passwords of PLAIN out of sasl.jaas.config as Apache Kafka's PlainLoginModule has them, by user: user_NAME="password". Options of other
// login modules do not count. No password is in its errors.
func PlainUsers(jaas string) (map[string]string, error) {
	words, err := jaasWords(jaas)
	if err != nil {
		return nil, fmt.Errorf("sasl.jaas.config: %w", err)
	}
	if len(words) == 0 || !strings.HasSuffix(strings.Join(words[len(words)-1:], ""), ";") {
		return nil, errors.New("sasl.jaas.config: it ends with a semicolon, as in " + plainModule + ` required user_NAME="password";`)
	}
	users := map[string]string{}
	if words[0] != plainModule {
		return users, nil
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(strings.TrimSuffix(word, ";"), "=")
		if user, ok := strings.CutPrefix(name, "user_"); ok && user != "" {
			users[user] = value
		}
	}
	return users, nil
}

// jaasWords cuts a configuration into words. Quotes are taken off; a semicolon that ends a module stays at the end of its word.
func jaasWords(text string) (words []string, err error) {
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case quote != 0 && c == '\\':
			escaped = true
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end()
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	end()
	return words, nil
}
