package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// validator checks a parsed value; its errors are Kafka's messages.
type validator func(name string, v Value) error

// parseValidator builds a validator from its description in the definitions.
func parseValidator(spec, key string) validator {
	kind, rest, _ := strings.Cut(spec, " ")
	switch kind {
	case "":
		return nil
	case "range":
		low, high, _ := strings.Cut(rest, " ")
		return inRange(low, high)
	case "one-of":
		return oneOf(strings.Split(rest, ","))
	case "one-of-ignoring-case":
		return oneOfIgnoringCase(strings.Split(rest, ","))
	case "list":
		f := strings.Split(rest, " ")
		var values []string
		if f[2] != "" {
			values = strings.Split(f[2], ",")
		}
		return listOf(f[0] == "true", values)
	case "NonEmptyString":
		return nonEmpty
	case "NonNullValidator":
		return nil // text is never null
	case "LambdaValidator":
		return gzipLevel
	case "ThrottledReplicaListValidator":
		return throttledReplicas
	case "ControllerQuorumVotersValidator":
		return quorumVoters
	case "ControllerQuorumBootstrapServersValidator":
		return bootstrapServers
	case "Validator":
		return autoOffsetReset
	}
	panic("config: embedded definition of " + key + ": unknown validator " + kind)
}

// inRange checks low <= v <= high; "_" is no bound.
func inRange(low, high string) validator {
	var lo, hi float64
	var loInt, hiInt int64
	for _, b := range []struct {
		text string
		f    *float64
		n    *int64
	}{{low, &lo, &loInt}, {high, &hi, &hiInt}} {
		if b.text != "_" {
			*b.f, _ = strconv.ParseFloat(b.text, 64)
			*b.n, _ = strconv.ParseInt(b.text, 10, 64)
		}
	}
	return func(name string, v Value) error {
		var tooLow, tooHigh bool
		switch v := v.(type) {
		case int64:
			tooLow, tooHigh = v < loInt, v > hiInt
		case float64:
			tooLow, tooHigh = v < lo, v > hi
		}
		if low != "_" && tooLow {
			return invalid(name, Format(v), "Value must be at least "+low)
		}
		if high != "_" && tooHigh {
			return invalid(name, Format(v), "Value must be no more than "+high)
		}
		return nil
	}
}

func oneOf(values []string) validator {
	return func(name string, v Value) error {
		if !slices.Contains(values, v.(string)) {
			return invalid(name, v.(string), "String must be one of: "+strings.Join(values, ", "))
		}
		return nil
	}
}

func oneOfIgnoringCase(values []string) validator {
	return func(name string, v Value) error {
		if !slices.Contains(values, strings.ToUpper(v.(string))) {
			return invalid(name, v.(string), "String must be one of (case insensitive): "+strings.Join(values, ", "))
		}
		return nil
	}
}

func listOf(emptyAllowed bool, values []string) validator {
	return func(name string, v Value) error {
		list := v.([]string)
		if len(list) == 0 && !emptyAllowed {
			names := "any non-empty value"
			if len(values) > 0 {
				names = "[" + strings.Join(values, ", ") + "]"
			}
			return fmt.Errorf("Configuration '%s' must not be empty. Valid values include: %s", name, names)
		}
		for _, e := range list {
			if e == "" {
				return fmt.Errorf("Configuration '%s' values must not be empty.", name)
			}
			if len(values) > 0 {
				if err := oneOf(values)(name, e); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func nonEmpty(name string, v Value) error {
	if v.(string) == "" {
		return invalid(name, "", "String must be non-empty")
	}
	return nil
}

func gzipLevel(name string, v Value) error {
	if n := v.(int64); n != -1 && (n < 1 || n > 9) {
		return invalid(name, Format(v), "Value must be between 1 and 9 or equal to -1")
	}
	return nil
}

var throttledReplica = pattern(`^[0-9]+:[0-9]+$`)

// throttledReplicas takes "*" alone or partition:broker pairs; one empty element at the end is taken, as in Kafka.
func throttledReplicas(name string, v Value) error {
	list := v.([]string)
	if len(list) == 1 && list[0] == "*" {
		return nil
	}
	pairs := list
	if n := len(pairs); n > 0 && pairs[n-1] == "" {
		pairs = pairs[:n-1]
	}
	for _, p := range pairs {
		if !throttledReplica().MatchString(p) {
			return invalid(name, "["+strings.Join(list, ", ")+"]", name+" must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...")
		}
	}
	return nil
}

func quorumVoters(name string, v Value) error {
	for _, e := range v.([]string) {
		id, address, ok := strings.Cut(e, "@")
		if !ok || strings.Contains(address, "@") {
			return fmt.Errorf("Invalid configuration value for %s. Each entry should be in the form `{id}@{host}:{port}`.", name)
		}
		if _, err := strconv.ParseInt(id, 10, 32); err != nil {
			return fmt.Errorf("Failed to parse voter ID as an integer from %s", id)
		}
		if !hostPort(address) {
			return fmt.Errorf("Failed to parse host name from entry %s for the configuration %s. Each entry should be in the form `{id}@{host}:{port}`.", e, name)
		}
	}
	return nil
}

func bootstrapServers(name string, v Value) error {
	for _, e := range v.([]string) {
		if !hostPort(e) {
			return fmt.Errorf(`Failed to parse host name from %s for the configuration %s. Each entry should be in the form "{host}:{port}"`, e, name)
		}
	}
	return nil
}

var hostPortPattern = pattern(`^(\[[0-9a-zA-Z:%._]+\]|[^:\[\]]+):[0-9]{1,5}$`)

func hostPort(s string) bool { return hostPortPattern().MatchString(s) }

// autoOffsetReset takes latest, earliest and by_duration: with a duration that is not negative.
func autoOffsetReset(name string, v Value) error {
	s := v.(string)
	if s == "latest" || s == "earliest" {
		return nil
	}
	if iso, ok := strings.CutPrefix(s, "by_duration:"); ok {
		if d, err := ParseISODuration(iso); err == nil && d >= 0 {
			return nil
		}
	}
	return invalid(name, s, "Invalid value `"+s+"` for configuration "+name+". The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.")
}
