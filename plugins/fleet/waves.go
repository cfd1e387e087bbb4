package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// Waves cuts hosts into waves: each part of the text is how many hosts have the change when
// the wave is over, as a number or in percent of all, rounded up. The last one must be all.
func Waves(text string, hosts []string) (out [][]string, err error) {
	done, all := 0, len(hosts)
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		number, percent := strings.CutSuffix(part, "%")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || percent && n > 100 {
			return nil, fmt.Errorf("waves %q: %q is none; write numbers of hosts or percents, such as 1,10%%,50%%,100%%", text, part)
		}
		if percent {
			n = (n*all + 99) / 100
		}
		if n = min(n, all); n > done { // small fleets have fewer waves
			out = append(out, hosts[done:n])
			done = n
		}
	}
	if done < all {
		return nil, fmt.Errorf("waves %q: they end with %d of %d hosts; the last one must be 100%%", text, done, all)
	}
	return out, nil
}
