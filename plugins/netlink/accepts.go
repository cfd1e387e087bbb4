package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// What a link accepts from its neighbors is read with the link: each link message carries the
// settings of IPv4 and IPv6. Of those that are written here the kernel takes only files.

// Places of settings in what link messages carry, which is one number for each setting; see
// linux/ip.h and linux/ipv6.h.
const (
	inetConf      = 1 // IFLA_INET_CONF
	inet6Conf     = 2 // IFLA_INET6_CONF
	inetRedirects = 3 // IPV4_DEVCONF_ACCEPT_REDIRECTS - 1

	inet6RA        = 3 // DEVCONF_ACCEPT_RA
	inet6Redirects = 4 // DEVCONF_ACCEPT_REDIRECTS
	inet6Autoconf  = 5 // DEVCONF_AUTOCONF
)

// parseAccepts reads the settings of all families.
func parseAccepts(b []byte) (s kernel.AcceptSpec) {
	for family, v := range attributes(b) {
		for typ, conf := range attributes(v) {
			switch {
			case family == unix.AF_INET && typ == inetConf:
				s.Redirects4 = confOf(conf, inetRedirects)
			case family == unix.AF_INET6 && typ == inet6Conf:
				s.RA, s.Redirects6, s.Autoconf = confOf(conf, inet6RA), confOf(conf, inet6Redirects), confOf(conf, inet6Autoconf)
			}
		}
	}
	return s
}

func confOf(conf []byte, at int) *int {
	if len(conf) < 4*(at+1) {
		return nil
	}
	return ref(int(int32(asU32(conf[4*at:]))))
}

// accepting is what a link of a name is to accept.
type accepting struct {
	name string
	spec kernel.AcceptSpec
}

// setAccepts writes what links of the namespace are to accept, all on one visit to it, and
// returns the error of each.
func (n *namespace) setAccepts(list []accepting) []error {
	errs := make([]error, len(list))
	failed := n.within(func() error {
		for i, a := range list {
			n.writes.add(1)
			errs[i] = a.write()
		}
		return setForAll(list)
	})
	for i := range errs {
		if failed != nil && errs[i] == nil {
			errs[i] = failed
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("set what %s accepts: %w", list[i].name, errs[i])
		}
	}
	return errs
}

// setAccept is setAccepts for one link, by its index.
func (n *namespace) setAccept(k *Kernel, index int, s kernel.AcceptSpec) error {
	if s == (kernel.AcceptSpec{}) {
		return nil
	}
	l, err := k.linkByIndex(n, index)
	if err != nil {
		return err
	}
	return n.setAccepts([]accepting{{l.Name, s}})[0]
}

// write writes the settings. The thread is in the namespace.
func (a accepting) write() error {
	const four, six = "net/ipv4/conf/", "net/ipv6/conf/"
	for _, s := range []struct {
		dir, file string
		value     *int
	}{
		{six, "accept_ra", a.spec.RA}, {six, "autoconf", a.spec.Autoconf},
		{six, "accept_redirects", a.spec.Redirects6}, {four, "accept_redirects", a.spec.Redirects4},
	} {
		if s.value == nil {
			continue
		}
		err := writeFile(s.dir+a.name+"/"+s.file, strconv.Itoa(*s.value))
		if errors.Is(err, unix.ENOENT) && s.dir == six {
			continue // the host, or a link with an MTU this small, has no IPv6
		}
		if errors.Is(err, unix.ENOENT) {
			err = fmt.Errorf("%w: %w", kernel.ErrNotExist, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setForAll writes the setting for all links, once for many. The thread is in the namespace.
func setForAll(list []accepting) error {
	i := slices.IndexFunc(list, func(a accepting) bool { return a.spec.AllRedirects4 != nil })
	if i < 0 {
		return nil
	}
	const all = "net/ipv4/conf/all/"
	want := strconv.Itoa(*list[i].spec.AllRedirects4)
	if forwards, err := readFile(all + "forwarding"); err != nil || forwards != "0" {
		return err
	}
	if now, err := readFile(all + "accept_redirects"); err != nil || now == want {
		return err
	}
	return writeFile(all+"accept_redirects", want)
}

// writeFile writes a setting. Where it cannot be written, as /proc/sys is read-only, it is
// enough that the setting has the value.
func writeFile(place, value string) error {
	fd, err := openSetting(place, unix.O_WRONLY)
	if errors.Is(err, unix.EROFS) {
		if now, readErr := readFile(place); readErr == nil && now == value {
			return nil
		}
		return fmt.Errorf("write %s to /proc/sys/%s: %w", value, place, err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}

func readFile(place string) (string, error) {
	fd, err := openSetting(place, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var buf [16]byte
	size, err := unix.Read(fd, buf[:])
	return string(bytes.TrimSpace(buf[:max(size, 0)])), err
}
