package ipam_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestStories plays testdata/stories on a scheduler with the kinds, and
// things that have the addresses of claims.
//
//	say       values, line by line: KEY VALUE, with none to withdraw
//	see       how keys stand, line by line
//	restart [PREFIX]
//	          the agent ends and another starts; entries with the prefix are lost from the
//	          ledger. No thing is changed
//	die NAME  operations die at a failpoint until the restart
//	wait D    time passes
//	ledger    what is on disk
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t)
			defer func() { a.stop() }()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				defer func() {
					if len(a.nets.wrong) > 0 {
						d.Fatalf(t, "%s", strings.Join(a.nets.wrong, "\n"))
					}
				}()
				switch d.Cmd {
				case "say":
					a.say(d.Input)
				case "see":
					return a.see(strings.Fields(d.Input)...)
				case "die":
					a.fail = d.CmdArgs[0].Key
				case "wait":
					pause, err := time.ParseDuration(d.CmdArgs[0].Key)
					if err != nil {
						d.Fatalf(t, "%v", err)
					}
					time.Sleep(pause)
					synctest.Wait()
				case "restart":
					quiet, before := a.fail == "", a.nets.writes
					var lost []string
					for _, arg := range d.CmdArgs {
						lost = append(lost, arg.Key)
					}
					a.restart(lost...)
					if quiet && a.nets.writes != before {
						d.Fatalf(t, "%d writes after a restart", a.nets.writes-before)
					}
				case "ledger":
					lines := strings.Split(strings.TrimSpace(a.disk.String()), "\n")
					slices.Sort(lines)
					return strings.ReplaceAll(strings.Join(lines, "\n"), "  ", " ") + "\n"
				default:
					d.Fatalf(t, "unknown directive %s", d.Cmd)
				}
				return ""
			})
		})
	})
}
