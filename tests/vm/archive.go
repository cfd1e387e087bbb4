package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pack writes the files of the machine as the kernel takes them at its start.
func (m Machine) pack(ctx context.Context, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	p := &packer{cpio: cpio{w: w}, done: map[string]bool{}}
	if err := m.packAll(ctx, p, filepath.Dir(to)); err != nil {
		return err
	}
	p.cpio.end()
	if p.cpio.err != nil {
		return p.cpio.err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// settings of this machine that programs there read as well.
var settings = []string{"/etc/iproute2", "/usr/share/iproute2", "/etc/protocols", "/etc/services", "/etc/passwd", "/etc/group", "/usr/lib/tc"}

func (m Machine) packAll(ctx context.Context, p *packer, tmp string) error {
	first := filepath.Join(tmp, "init")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", first, "github.com/plumb-net/plumb/tests/vm/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	commands, err := json.Marshal(m.Commands)
	if err != nil {
		return err
	}
	p.bytes("/commands", 0o644, commands)
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/root", "/usr/sbin"} {
		p.dir(dir)
	}
	for at, to := range map[string]string{"/bin": "usr/sbin", "/sbin": "usr/sbin", "/usr/bin": "sbin"} {
		p.link(at, to)
	}
	p.cpio.add("dev/console", charDevice|0o600, nil, 5, 1)
	files := map[string]string{"/init": first, "/lib/modules/" + m.Kernel.Release: m.Kernel.modules}
	for _, s := range settings {
		if _, err := os.Stat(s); err == nil {
			files[s] = s
		}
	}
	for at, from := range m.Files {
		files[at] = from
	}
	for _, at := range slices.Sorted(maps.Keys(files)) {
		if err := p.tree(ctx, at, files[at]); err != nil {
			return err
		}
	}
	for _, name := range append([]string{"modprobe"}, m.Programs...) {
		from, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		if err := p.program(ctx, "/usr/sbin/"+name, from); err != nil {
			return err
		}
	}
	return nil
}

// packer adds each path once, after the directories above it.
type packer struct {
	cpio cpio
	done map[string]bool
}

func (p *packer) fresh(at string) bool {
	if p.done[at] {
		return false
	}
	p.done[at] = true
	return true
}

func (p *packer) dir(at string) {
	if at != "/" && p.fresh(at) {
		p.dir(path.Dir(at))
		p.cpio.add(at[1:], directory|0o755, nil, 0, 0)
	}
}

func (p *packer) link(at, to string) {
	if p.fresh(at) {
		p.dir(path.Dir(at))
		p.cpio.add(at[1:], symlink|0o777, []byte(to), 0, 0)
	}
}

func (p *packer) bytes(at string, mode fs.FileMode, data []byte) {
	if p.fresh(at) {
		p.dir(path.Dir(at))
		p.cpio.add(at[1:], regular|uint32(mode.Perm()), data, 0, 0)
	}
}

// tree adds a file, or all below a directory.
func (p *packer) tree(ctx context.Context, at, from string) error {
	return filepath.WalkDir(from, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(file) // what a link leads to
		if err != nil || e.IsDir() {
			return nil // a link to nowhere, such as that to the source of the kernel
		}
		to := at + strings.TrimPrefix(file, from)
		if info.Mode()&0o111 != 0 && info.Mode().IsRegular() {
			return p.program(ctx, to, file)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		return p.file(to, file, info.Mode())
	})
}

func (p *packer) file(at, from string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	p.bytes(at, mode, data)
	return nil
}

// program adds a program with the libraries that it is linked to.
func (p *packer) program(ctx context.Context, at, from string) error {
	if err := p.file(at, from, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "ldd", from).Output()
	if err != nil {
		return nil // it has none, or is no such program
	}
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		if err := p.file(word, word, 0o755); err != nil {
			return err
		}
	}
	return nil
}
