package access

import (
	"crypto/x509"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rolePrefix is how an organization of a certificate begins that is a role.
const rolePrefix = "plumb:"

// maxCommonName is the bound of X.520 (ub-common-name), in characters. Authorities need not keep to
// it, and the name is in each line of the log about a call.
const maxCommonName = 64

// ofCertificate is who a certificate is of: its common name, and the strongest of the roles
// among its organizations, as in Kubernetes. Whether the certificate is good is not asked.
func ofCertificate(c *x509.Certificate) (Identity, error) {
	id := Identity{Name: c.Subject.CommonName, By: "certificate"}
	if id.Name == "" {
		return id, &Refused{Why: "the certificate has no common name (CN), which is the name of who asks"}
	}
	if utf8.RuneCountInString(id.Name) > maxCommonName || strings.ContainsFunc(id.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Identity{}, &Refused{Why: fmt.Sprintf("the common name (CN) of the certificate must have 1 to %d printable characters", maxCommonName)}
	}
	for _, o := range c.Subject.Organization {
		name, ours := strings.CutPrefix(o, rolePrefix)
		if r, err := ParseRole(name); ours && err == nil {
			id.Role = max(id.Role, r)
		}
	}
	if id.Role == Nobody {
		return id, &Refused{Known: true, Why: fmt.Sprintf("the certificate of %s gives no role: its organization (O) must be %s%s, %s%s or %s%s",
			id.Name, rolePrefix, Viewer, rolePrefix, Operator, rolePrefix, Admin)}
	}
	return id, nil
}
