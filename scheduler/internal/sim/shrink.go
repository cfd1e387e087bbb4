package sim

import (
	"slices"
	"strings"
)

// Shrink makes a failing history smaller while it still fails: it leaves out
// steps, then lines, words and parts of words. It asks at most budget times.
func Shrink(steps []Step, budget int, fails func([]Step) bool) []Step {
	ask := func(s []Step) bool {
		budget--
		return budget >= 0 && fails(s)
	}
	for was := ""; was != Script(steps) && budget > 0; {
		was = Script(steps)
		steps = fewer(steps, ask)
		for i := range steps {
			steps = smaller(steps, i, ask)
		}
	}
	return steps
}

// fewer leaves out what can be left out of a list: first large parts, then
// single entries.
func fewer[T any](list []T, fails func([]T) bool) []T {
	for size := len(list) / 2; size > 0; size /= 2 {
		for i := 0; i < len(list); {
			without := slices.Delete(slices.Clone(list), i, min(i+size, len(list)))
			if fails(without) {
				list = without
			} else {
				i += size
			}
		}
	}
	return list
}

// smaller makes one step smaller.
func smaller(steps []Step, i int, fails func([]Step) bool) []Step {
	try := func(change func(s *Step)) bool {
		s := slices.Clone(steps)
		change(&s[i])
		if fails(s) {
			steps = s
			return true
		}
		return false
	}
	fewer(steps[i].Args, func(args []string) bool { return try(func(s *Step) { s.Args = args }) })
	fewer(steps[i].Lines, func(lines []string) bool { return try(func(s *Step) { s.Lines = lines }) })
	for j := range steps[i].Lines {
		line := func(l string) bool {
			return try(func(s *Step) {
				s.Lines = slices.Clone(s.Lines)
				s.Lines[j] = l
			})
		}
		fewer(strings.Fields(steps[i].Lines[j]), func(words []string) bool {
			return len(words) > 0 && line(strings.Join(words, " "))
		})
		for at, w := range strings.Fields(steps[i].Lines[j]) {
			name, list, ok := strings.Cut(w, "=")
			if !ok || !strings.Contains(list, ",") {
				continue
			}
			fewer(strings.Split(list, ","), func(parts []string) bool {
				words := strings.Fields(steps[i].Lines[j])
				words[at] = name + "=" + strings.Join(parts, ",")
				return len(parts) > 0 && line(strings.Join(words, " "))
			})
		}
	}
	return steps
}
