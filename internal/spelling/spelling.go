// Package spelling guesses what a misspelt name was meant to be.
package spelling

import "strings"

// Nearest is the known name to which the fewest letters lead that are inserted, left out or changed, without regard to case: at most one in three of the name's. It is "" where there is
// none; of several the first.
func Nearest(name string, known []string) string {
	best, least := "", 1+len(name)/3
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k), least+1); d <= least {
			best, least = k, d-1
		}
	}
	return best
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
