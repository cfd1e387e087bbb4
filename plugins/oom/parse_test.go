package oom

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the drivers of runtimes make of a container's id, all with the same one.
func TestIDsIn(t *testing.T) {
	id, outer := strings.Repeat("5f", 32), strings.Repeat("0e", 32)
	for path, want := range map[string][]string{
		"/docker/" + id:                                                                        {id},
		"/docker/" + id + "/deep":                                                              {id},
		"/docker/" + outer + "/docker/" + id:                                                   {outer, id},
		"/system.slice/docker-" + id + ".scope":                                                {id},
		"/kubepods/burstable/pod1f0c1f4c-0000-4000-8000-000000000000/" + id:                    {id},
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope":                  {id},
		"/system.slice/containerd.service/kubepods-besteffort-pod1.slice:cri-containerd:" + id: {id},
		"/machine.slice/libpod-" + id + ".scope/container":                                     {id},
		"/kubepods.slice/crio-" + id + ".scope":                                                {id},
		"/user.slice/user-0.slice/session-1.scope":                                             nil,
		"/": nil,
	} {
		if got := idsIn(path); !slices.Equal(got, want) {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Both versions of cgroups, and both at once.
func TestMemoryPaths(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/a.scope\n":                        "/system.slice/a.scope",
		"5:cpu,memory:/docker/a\n1:name=systemd:/x\n0::/\n": "/docker/a",
		"4:memory:/\n0::/docker/a\n":                        "/docker/a",
		"4:memory:/m\n0::/u\n":                              "/m /u",
		"4:memorystick:/m\n":                                "",
		"4:memory:/with:colon\n":                            "/with:colon",
		"nothing":                                           "",
	} {
		if got := strings.Join(memoryPaths(text), " "); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestMounts(t *testing.T) {
	const v1 = "36 25 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n" +
		"37 25 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	const v2 = "26 25 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
	for text, want := range map[string]cgroupHost{
		v1:      {v1: "/sys/fs/cgroup/memory"},
		v2:      {v2: "/sys/fs/cgroup/unified"},
		v1 + v2: {v1: "/sys/fs/cgroup/memory", v2: "/sys/fs/cgroup/unified"},
		"x":     {},
	} {
		if got := hostOf(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// The name of a process is chosen by who runs it.
func TestNames(t *testing.T) {
	for _, name := range []string{"sh", "a b", "x) total-vm:", "),UID 0, t", ",task=a", "x,pid=1,uid=2", "(sd-pam)", ""} {
		var p parser
		p.take(Message{Kernel: true, Text: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0," +
			"oom_memcg=/a,b,task_memcg=/a,b/c,task=" + name + ",pid=42,uid=1000"})
		v, ok := p.take(Message{Kernel: true, Text: "Memory cgroup out of memory: Killed process 42 (" + name + ") total-vm:1kB, anon-rss:2kB"})
		want := victim{pid: 42, name: name, constraint: "CONSTRAINT_MEMCG", cgroup: "/a,b/c", limit: "/a,b", reported: true}
		if !ok || v != want {
			t.Errorf("%q: %+v", name, v)
		}
	}
}

// A report that came to no kill is not taken for the next one.
func TestReportWithoutKill(t *testing.T) {
	var p parser
	p.take(Message{Kernel: true, Text: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a,task=x,pid=42,uid=0"})
	p.take(Message{Kernel: true, Text: "OOM victim 42 (x) is already exiting. Skip killing the task"})
	if v, ok := p.take(Message{Kernel: true, Text: "Memory cgroup out of memory: Killed process 43 (y) total-vm:1kB"}); !ok || v.cgroup != "" {
		t.Errorf("%+v", v)
	}
}

func FuzzParser(f *testing.F) {
	f.Add("6,1,2,-;oom-kill:constraint=C,nodemask=(null),oom_memcg=/a,task_memcg=/a,task=x,pid=42,uid=0", "3,2,3,c;Killed process 42 (x) total-vm:1kB")
	f.Add("6,1,2,-;Task in /a killed as a result of limit of /", `6,1,2;x\x`)
	f.Add("6,1,2,-;Tasks in /a are going to be killed due to memory.oom.group set", "6,1,2,-;oom-kill:constraint=")
	f.Fuzz(func(t *testing.T, a, b string) {
		var p parser
		for _, text := range []string{a, b, a} {
			if m, ok := parseMessage(text); ok {
				if v, ok := p.take(m); ok && v.pid <= 0 {
					t.Errorf("%+v", v)
				}
			}
		}
	})
}

// Version 1 counts a kill where it was, version 2 all the way up.
func TestCounters(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{
		v1 + "/docker/a/memory.oom_control":          "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		v1 + "/docker/a/deep/memory.oom_control":     "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		v1 + "/docker/a/deep/est/memory.oom_control": "oom_kill 4\n",
		v1 + "/docker/old/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\n",
		v2 + "/docker/a/memory.events":               "low 0\nhigh 0\nmax 9\noom 8\noom_kill 7\noom_group_kill 1\n",
		v2 + "/docker/a/deep/memory.events":          "oom_kill 6\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		host   cgroupHost
		cgroup string
		want   uint64
		err    error
	}{
		{cgroupHost{v1: v1}, "4:memory:/docker/a\n", 7, nil},
		{cgroupHost{v1: v1, v2: v2}, "4:memory:/docker/a/deep\n0::/docker/a\n", 6, nil},
		{cgroupHost{v1: v1}, "4:memory:/docker/old\n", 0, ErrNoCounter}, // a kernel before 4.13
		{cgroupHost{v1: v1}, "4:memory:/docker/gone\n", 0, os.ErrNotExist},
		{cgroupHost{v2: v2}, "0::/docker/a\n", 7, nil},
		{cgroupHost{v2: v2}, "0::/\n", 0, ErrNoCounter},
	} {
		if n, err := c.host.Kills(c.cgroup); n != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v", c.cgroup, n, err)
		}
	}
}
