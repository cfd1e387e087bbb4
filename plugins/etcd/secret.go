package etcd

import (
	"fmt"
	"net/url"
	"os"
	"strings"
)

// warnings are what is wrong with how the password is kept and sent, and with files that
// were replaced. It works all the same; so it is said, in the log and in the status.
func (c Config) warnings() (out []string) {
	for what, file := range map[string]string{"the password": c.PasswordFile, "the key of the certificate": c.KeyFile} {
		if st, err := os.Stat(file); file != "" && err == nil && st.Mode().Perm()&0o077 != 0 {
			out = append(out, fmt.Sprintf("%s of etcd is in %s, which others can read (mode %04o): chmod 600 %s",
				what, file, st.Mode().Perm(), file))
		}
	}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		plain := err != nil || u.Scheme != "https" && u.Scheme != "unix" && u.Scheme != "unixs"
		if plain && !strings.Contains(e, "://") {
			plain = !c.cluster().TLS()
		}
		if plain && c.User != "" {
			out = append(out, fmt.Sprintf("the password of etcd goes to %s without encryption: use https:// and --etcd-ca", e))
		}
		if err == nil && u.User != nil {
			out = append(out, fmt.Sprintf("the endpoint %s names a user: that is not used; say it by --etcd-user and --etcd-password-file", e))
		}
	}
	if c.files != nil {
		if err := c.files.Err(); err != nil {
			out = append(out, fmt.Sprintf("a file cannot be used, and what it held before is: %v", err))
		}
	}
	return out
}
