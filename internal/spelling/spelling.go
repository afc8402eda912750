// Package spelling guesses what a misspelt name was meant to be.
package spelling

import "strings"

// Nearest is the known name to which the fewest letters lead that are inserted, left out or changed, without regard to case: at most one in three of the name's.
// Where there is none it is the shortest that begins with the name, which has at least 4 letters then. It is "" where there is none either; of several the first.
func Nearest(name string, known []string) string {
	best, least := "", 1+len(name)/3
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k), least+1); d <= least {
			best, least = k, d-1
		}
	}
	if best != "" || len(name) < minBeginning {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), strings.ToLower(name)) && (best == "" || len(k) < len(best)) {
			best = k
		}
	}
	return best
}

// minBeginning is how many letters of a name must be there for it to be known by its beginning.
const minBeginning = 4

// Slip is the known name from which one slip of the fingers leads to a name: a letter inserted, left out or changed, or two neighbours swapped. Names of fewer
// than 4 letters have none, nor those that differ in a digit, which are numbered on purpose. It is "" where there is none; of several the first.
func Slip(name string, known []string) string {
	for _, k := range known {
		if len(name) >= minBeginning && name != k && isSlip(name, k) && digits(name) == digits(k) {
			return k
		}
	}
	return ""
}

func isSlip(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a)+len(b) == 1 || len(a) == 1 && len(b) == 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// digits are those of a name.
func digits(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, name)
}

// DidYouMean guesses what a name that is none of the known ones was meant to be, as words to add to an error: ": did you mean X?", "" where there is no
// guess.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// distance counts the insertions, deletions and changes of a byte from a to b, or gives limit if they are as many or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
