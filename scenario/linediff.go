package scenario

// mostCompared bounds the lines whose common ones are looked for, from times to.
const mostCompared = 1 << 22

// lineDiff writes how one list of lines becomes another: "- " before what goes, "+ " before what comes, two spaces before what stays.
func lineDiff(from, to []string) (out []string) {
	if len(from)*len(to) > mostCompared {
		for _, l := range from {
			out = append(out, "- "+l)
		}
		for _, l := range to {
			out = append(out, "+ "+l)
		}
		return out
	}
	// longest[i][j] is the length of the longest common subsequence of from[i:] and to[j:].
	longest := make([][]int, len(from)+1)
	for i := range longest {
		longest[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				longest[i][j] = 1 + longest[i+1][j+1]
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			out = append(out, "  "+from[i])
			i, j = i+1, j+1
		case j == len(to) || i < len(from) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, "- "+from[i])
			i++
		default:
			out = append(out, "+ "+to[j])
			j++
		}
	}
	return out
}
