package graph

import "fmt"

// The functions of a need run in the midst of an edit, so none of them may
// panic: what was half done would stay so. One that does answers no.

func (f *needFuncs) pass(t *Node, value any) (ok bool) {
	if f.need.Pass == nil {
		return true
	}
	defer func() {
		if p := recover(); p != nil {
			ok, f.broken = false, fmt.Sprintf("the condition panicked: %v", p)
		}
	}()
	return f.need.Pass(t.Key, value, t.Meta)
}

func (f *needFuncs) tell(t *Node) (why string) {
	if f.broken != "" || f.need.Tell == nil {
		return f.broken
	}
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprintf("to say why panicked: %v", p)
		}
	}()
	return f.need.Tell(t.Actual, t.Meta)
}

func (f *needFuncs) project(t *Node) (part string) {
	defer func() {
		if recover() != nil {
			part = "" // the same each time: nothing is made anew for it
		}
	}()
	return f.need.Project(t.Actual, t.Meta)
}

func (f *needFuncs) agree(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("to compare it with its peer panicked: %v", p)
		}
	}()
	if err = f.need.Agree(v); err != nil {
		_ = err.Error() // which may panic, too
	}
	return err
}
