package dynamic

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/caller"
)

// locked reads the object, and sends what make returns for that state of it, bound to its version. The code lost means that another
// write came between: then all of it is repeated, unless the caller named the version.
func (o *writeRequest) locked(whole bool, version string, lost int, make func(*state) (outgoing, error)) (any, error) {
	return answered(caller.Change(o.in.Context(), o.seen(version), o.reader(whole), func(_ context.Context, now *state) (any, error) {
		out, err := make(now)
		if err != nil {
			return nil, err
		}
		return o.attempt(out, lost)
	}))
}

func (o *writeRequest) seen(version string) caller.Seen {
	return caller.Seen{Resource: o.kind.GVR.GroupResource(), Name: o.info.Name, Version: version}
}

func (o *writeRequest) reader(whole bool) func(context.Context) (*state, error) {
	return func(context.Context) (*state, error) { return o.readLive(whole) }
}

// attempt sends a write that is bound to a version of its object. The answer comes with an error if its code is the one that says that
// the object has another version by now.
func (o *writeRequest) attempt(out outgoing, lost int) (any, error) {
	res, err := o.send(out)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == lost {
		return &answer{res}, caller.Modified(o.kind.GVR.GroupResource(), o.info.Name)
	}
	return &answer{res}, nil
}

// answered returns the answer of the last attempt, if there was one: a conflict is answered in kube-apiserver's words.
func answered(out any, err error) (any, error) {
	if out != nil {
		return out, nil
	}
	return nil, err
}
