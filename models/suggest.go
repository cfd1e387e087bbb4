package models

import "strings"

// Nearest finds the word that was probably meant, or "". Of equally near ones
// it takes the first.
func Nearest(got string, words []string) string {
	best, bestDist := "", 1+max(1, len(got)/3)
	if len(got) > maxSuggest {
		return ""
	}
	low := strings.ToLower(got)
	for _, w := range words {
		if d := Distance(low, strings.ToLower(w), bestDist); d < bestDist {
			best, bestDist = w, d
		}
	}
	if best != "" || len(got) < 3 {
		return best
	}
	for _, w := range words {
		if strings.HasPrefix(w, low) || len(w) > 2 && strings.HasSuffix(low, w) {
			return w
		}
	}
	return ""
}

// maxSuggest bounds the work for a word that somebody made very long.
const maxSuggest = 64

// Distance counts the edits from a to b: insert, delete, change, swap neighbours. It does not
// count where the lengths alone differ by more than limit.
func Distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
