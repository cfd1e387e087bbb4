package spec

import "fmt"

// Codes of errors. Those below 100 are the specification's.
const (
	BadVersion   = 1   // incompatible version
	Unsupported  = 2   // a field of the configuration is not supported
	NoContainer  = 3   // the container is unknown, the runtime need not clean up: only others say that
	BadEnv       = 4   // the environment of the call
	IOFailure    = 5   // the configuration could not be read
	BadJSON      = 6   // it could not be decoded
	BadConfig    = 7   // it says what cannot be
	TryLater     = 11  // a passing condition
	Unavailable  = 50  // no ADD can be served
	Degraded     = 51  // nor do existing containers have a network
	BadNamespace = 100 // the network namespace is not one, or the host's
	Exists       = 101 // the interface is there already
	Broken       = 102 // CHECK: something is not as it was made
	Internal     = 999 // a bug
)

// Error is an error as a runtime is told.
type Error struct {
	Code    int    `json:"code"`
	Msg     string `json:"msg"`
	Details string `json:"details,omitempty"`
}

func (e *Error) Error() string {
	if e.Details == "" {
		return fmt.Sprintf("%s (code %d)", e.Msg, e.Code)
	}
	return fmt.Sprintf("%s: %s (code %d)", e.Msg, e.Details, e.Code)
}

// Invalid refuses a configuration that says what cannot be.
func Invalid(format string, args ...any) *Error {
	return &Error{Code: BadConfig, Msg: "invalid network configuration", Details: fmt.Sprintf(format, args...)}
}

// NotSupported refuses what is not there yet, before anything is touched.
func NotSupported(field, format string, args ...any) *Error {
	return &Error{Code: Unsupported, Msg: "unsupported field", Details: field + ": " + fmt.Sprintf(format, args...)}
}

// InUse refuses what others have. Who is there first has it.
func InUse(format string, args ...any) *Error {
	return &Error{Code: TryLater, Msg: "it is in use", Details: fmt.Sprintf(format, args...)}
}
