package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// credential is a value with a secret, which no read tells again.
type credential struct{ User, Password string }

// logins is a system that takes passwords and never gives them back.
type logins struct {
	mu    sync.Mutex
	has   map[scheduler.Key]credential
	done  []string
	fails error
	hangs chan struct{} // what an update waits for once it took effect
}

func (w *logins) do(what string, k scheduler.Key, v credential) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, fmt.Sprintf("%s %s %s:%s", what, k, v.User, v.Password))
	if err := w.fails; err != nil {
		w.fails = nil
		return fmt.Errorf("%w: %s is too weak", err, v.Password)
	}
	if what == "delete" {
		delete(w.has, k)
	} else {
		w.has[k] = v
	}
	return nil
}

// did are the operations since it was asked last.
func (w *logins) did() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.done, ", ")
	w.done = nil
	return out
}

func (w *logins) kind(update bool) scheduler.Descriptor[credential, int] {
	d := scheduler.Descriptor[credential, int]{
		Name: "login", Prefix: "login/",
		Create: func(_ context.Context, k scheduler.Key, v credential) (int, error) { return 1, w.do("create", k, v) },
		Delete: func(_ context.Context, k scheduler.Key, v credential, _ int) error {
			return w.do("delete", k, credential{})
		},
		Secrets: func(v credential) (credential, []string) {
			return credential{v.User, strings.Repeat("*", min(3, len(v.Password)))}, []string{v.Password}
		},
		Equal: func(_ scheduler.Key, is, want credential) bool { return is.User == want.User },
		Validate: func(_ scheduler.Key, v credential) error {
			switch v.User {
			case "":
				return scheduler.Invalid("user", "the password %s has no user", v.Password)
			case "boom":
				panic(v.Password)
			}
			return nil
		},
		Disruption: func(_ scheduler.Key, from, to credential) scheduler.Disruption { panic(from.Password + to.Password) },
		Retrieve: func(_ context.Context, s scheduler.Scope[credential, int]) iter.Seq2[scheduler.Found[credential, int], error] {
			return func(yield func(scheduler.Found[credential, int], error) bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for k, v := range w.has {
					if s.Has(k) && !yield(scheduler.Found[credential, int]{Key: k, Value: credential{User: v.User}, Meta: 1}, nil) {
						return
					}
				}
			}
		},
		Encode: func(v credential) ([]byte, error) { return []byte(v.User + " " + v.Password), nil },
		Decode: func(b []byte) (v credential, err error) {
			_, err = fmt.Sscan(string(b), &v.User, &v.Password)
			return v, err
		},
	}
	if update {
		d.Update = func(_ context.Context, k scheduler.Key, _, to credential, _ int) (int, error) {
			err := w.do("update", k, to)
			if w.hangs != nil {
				<-w.hangs
			}
			return 1, err
		}
	}
	return d
}

// vault is a scheduler on a system of logins, and all that it was heard to say.
type vault struct {
	*scheduler.Scheduler
	w      *logins
	log    strings.Builder
	logins *scheduler.Kind[credential, int]
}

func newVault(t *testing.T, w *logins, update bool) *vault {
	v := &vault{w: w}
	v.Scheduler = scheduler.New(scheduler.Options{Log: slog.New(slog.NewTextHandler(&v.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	var err error
	if v.logins, err = scheduler.Register(v.Scheduler, w.kind(update)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return v
}

func (v *vault) want(t *testing.T, k scheduler.Key, l credential) scheduler.Result {
	t.Helper()
	r, err := v.Apply(t.Context(), scheduler.Txn{Want: []scheduler.Change{v.logins.Set(k, l)}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told is all that is told of the vault.
func (v *vault) told(t *testing.T, more ...any) string {
	synctest.Wait()
	out := fmt.Sprintf("%+v", more)
	all, err := v.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out += fmt.Sprintf("%+v %+v", all, v.History(scheduler.HistoryQuery{}))
	for _, r := range v.History(scheduler.HistoryQuery{}) {
		out += fmt.Sprintf("%+v", v.History(scheduler.HistoryQuery{Seq: r.Seq}))
	}
	found, err := v.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	why, _ := v.Why(t.Context(), "login/a")
	var then []any
	for ago := range 4 {
		at, err := v.At(t.Context(), time.Now().Add(-time.Duration(ago)*time.Minute/2))
		then = append(then, at, err)
	}
	out += fmt.Sprintf("%+v %+v %+v %s", found, why, then, why)
	return out + v.log.String()
}

const secret, other = "hunter22", "correct-horse"

// TestSecrets: a secret that changes is applied, though nobody can read it back, and it is
// told nowhere.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &logins{has: map[scheduler.Key]credential{}}
		v := newVault(t, w, true)
		did := func(want string) {
			t.Helper()
			if got := w.did(); got != want {
				t.Errorf("did %q, want %q", got, want)
			}
		}
		v.want(t, "login/a", credential{"amy", secret})
		did("create login/a amy:" + secret)
		if got, _, _ := v.logins.Get("login/a"); got.Password != secret {
			t.Errorf("who reads the kind gets %+v", got)
		}
		look := func() {
			t.Helper()
			if _, err := v.Apply(t.Context(), scheduler.Txn{LookAll: true}); err != nil {
				t.Error(err)
			}
		}
		look() // it is found without the secret, and is as wanted
		v.want(t, "login/a", credential{"amy", secret})
		did("")
		p, err := v.Preview(t.Context(), scheduler.Txn{Want: []scheduler.Change{v.logins.Set("login/a", credential{"amy", other})}})
		if err != nil || len(p.Steps) != 1 || p.Steps[0].Op != scheduler.OpUpdate || p.Steps[0].Reason != "a secret changed" {
			t.Errorf("planned %+v, %v", p.Steps, err)
		}
		saved, err := p.Base.Save()
		if again, _ := p.Base.Save(); err != nil || saved.Sum == again.Sum || saved.Load().Moved(p.Base) != nil || again.Load().Moved(p.Base) != nil {
			t.Errorf("saved twice, the plan is %v and %v: %v", saved, again, err)
		}
		v.want(t, "login/a", credential{"amy", other})
		did("update login/a amy:" + other)
		if saved.Load().Moved(p.Base) != nil {
			t.Error("the plan does not equal itself any more")
		}
		now, err := v.Preview(t.Context(), scheduler.Txn{Want: []scheduler.Change{v.logins.Set("login/a", credential{"amy", other})}})
		if err != nil || saved.Load().Moved(now.Base) == nil {
			t.Error("a plan whose secret is in place by now can still be executed")
		}
		look()
		did("")
		v.want(t, "login/a", credential{"amy", secret})
		w.has["login/a"] = credential{"eve", "mallory"}
		time.Sleep(time.Minute)
		look() // what was believed had the secret
		did("update login/a amy:" + secret + ", update login/a amy:" + secret)

		w.fails = errors.New("refused")
		failed := v.want(t, "login/b", credential{"bob", secret})
		invalid := v.want(t, "login/c", credential{"", secret})
		panicked := v.want(t, "login/d", credential{"boom", secret})
		v.want(t, "login/a", credential{"amy", ""})
		time.Sleep(time.Minute)
		if got := w.did(); !strings.Contains(got, "update login/a amy:") {
			t.Errorf("a secret that is taken away: did %q", got)
		}
		told := v.told(t, p, saved, failed, invalid, panicked)
		for _, s := range []string{secret, other} {
			if i := strings.Index(told, s); i >= 0 {
				t.Errorf("a secret is told: %s", told[max(0, i-200):min(len(told), i+200)])
			}
		}
		for _, want := range []string{"refused: *** is too weak", "the password *** has no user"} {
			if !strings.Contains(told, want) {
				t.Errorf("not told: %s", want)
			}
		}
	})
}

// TestSecretsAfterARestart: nobody knows with which secrets things were made before. What
// can be changed in place is made sure of once; nothing is taken down for it.
func TestSecretsAfterARestart(t *testing.T) {
	for update, want := range map[bool]string{true: "update login/a amy:" + secret, false: ""} {
		synctest.Test(t, func(t *testing.T) {
			w := &logins{has: map[scheduler.Key]credential{"login/a": {"amy", "old"}}}
			v := newVault(t, w, update)
			v.want(t, "login/a", credential{"amy", secret})
			if got := w.did(); got != want {
				t.Errorf("did %q, want %q", got, want)
			}
			v.want(t, "login/a", credential{"amy", other})
			want := "update login/a amy:" + other
			if !update {
				want = "delete login/a :, create login/a amy:" + other
			}
			if got := w.did(); got != want {
				t.Errorf("did %q, want %q", got, want)
			}
		})
	}
}

// TestSecretReplaces: what cannot be changed in place is made anew for a secret.
func TestSecretReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &logins{has: map[scheduler.Key]credential{}}
		v := newVault(t, w, false)
		v.want(t, "login/a", credential{"amy", secret})
		v.want(t, "login/a", credential{"amy", other})
		if got, want := w.did(), "create login/a amy:"+secret+", delete login/a :, create login/a amy:"+other; got != want {
			t.Errorf("did %q, want %q", got, want)
		}
	})
}

// TestSecretOfAnOverdueUpdate: an update past its deadline may have set its secret or not,
// so the one of before is set again when it is wanted again.
func TestSecretOfAnOverdueUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &logins{has: map[scheduler.Key]credential{}, hangs: make(chan struct{}, 1)}
		v := newVault(t, w, true)
		v.want(t, "login/a", credential{"amy", secret})
		v.Submit(scheduler.Txn{Want: []scheduler.Change{v.logins.Set("login/a", credential{"amy", other})}})
		time.Sleep(time.Hour)
		v.Submit(scheduler.Txn{Want: []scheduler.Change{v.logins.Set("login/a", credential{"amy", secret})}})
		synctest.Wait()
		close(w.hangs)
		time.Sleep(time.Hour)
		if got, want := w.did(), "create login/a amy:"+secret+", update login/a amy:"+other+", update login/a amy:"+secret; got != want {
			t.Errorf("did %q, want %q", got, want)
		}
	})
}
