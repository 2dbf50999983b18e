package grouporigin_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/grouporigin"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store"
)

// world has ann, who is in the Group sre of workspace a and in the platform's Group ops, both by GroupBindings, and in dev by her spec.
type world struct {
	users *iam.UserIndex
	*grouporigin.Index
	changes int
}

func newWorld() *world {
	w := &world{users: iam.NewUserIndex()}
	w.Index = grouporigin.New(w.users, func() { w.changes++ })
	w.users.Set(iamtest.User("ann", iamtest.WithGroups("sre", "ops", "dev"), func(u *iamapi.User) {
		u.Annotations = map[string]string{iamapi.AnnotationBoundGroups: "ops,sre"}
	}))
	w.group("sre", "a")
	w.group("ops", "")
	return w
}

func (w *world) group(name, workspace string) {
	w.Set(&store.Object{Name: name, Raw: redaction.Bytes(fmt.Sprintf(`{"metadata":{"labels":{"kubesphere.io/workspace":%q}}}`, workspace))})
}

func (w *world) ann() user.Info { return w.users.ByName("ann").Info() }

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// S6: who is in a Group of a workspace is decided there, so its name says nothing elsewhere.
func TestAGroupOfAWorkspaceCountsThereAlone(t *testing.T) {
	w := newWorld()
	is(t, w.Of(w.ann()), "ops", "dev", user.AllAuthenticated)
	is(t, w.In("b", w.ann()), "ops", "dev", user.AllAuthenticated)
	is(t, w.In("a", w.ann()), "sre", "ops", "dev", user.AllAuthenticated)
	is(t, w.OfUser(w.users.ByName("ann")), "ops", "dev")

	w.group("dev", "b") // whoever wrote spec.groups
	is(t, w.Of(w.ann()), "ops", user.AllAuthenticated)
	w.group("dev", "")
	is(t, w.Of(w.ann()), "ops", "dev", user.AllAuthenticated)
	is(t, w.Of(&user.DefaultInfo{Name: "system:serviceaccount:a:sa", Groups: []string{"sre", "dev"}}), "dev")
}

// S6: somebody who deletes a Group to have its name count has nothing of it, although the User loses it a moment later.
func TestAGroupThatIsGoneCountsNowhere(t *testing.T) {
	w := newWorld()
	w.Delete("", "sre")
	w.Delete("", "ops")
	is(t, w.Of(w.ann()), "dev", user.AllAuthenticated)
	is(t, w.In("a", w.ann()), "dev", user.AllAuthenticated)
	is(t, w.OfUser(w.users.ByName("ann")), "dev")
	w.group("ops", "")
	w.Set(&store.Object{Name: "ops", Raw: redaction.Bytes(`{"metadata":`)})
	is(t, w.Of(w.ann()), "dev", user.AllAuthenticated)
}

// A user who makes a Group with the name of a provider's takes no right from those whom the provider says to be in it.
func TestWhatTheProviderReportsCounts(t *testing.T) {
	w := newWorld()
	w.group("staff", "a")
	reported := session.WithSession(&user.DefaultInfo{Name: "ann", UID: "uid-ann", Groups: []string{"sre", "dev", "staff"}},
		&session.Session{Groups: []string{"staff"}})
	is(t, w.Of(reported), "dev", "staff")
	vouched := &user.DefaultInfo{Name: "ann", UID: "uid-ann", Groups: []string{"sre", "dev", "staff"}} // by a provider that authenticates each request
	is(t, w.Of(vouched), "dev", "staff")
}

func TestAChangeOfAGroupIsTold(t *testing.T) {
	w := newWorld()
	before := w.changes
	w.group("sre", "a")
	if w.changes != before {
		t.Error("nothing has changed")
	}
	w.group("sre", "b")
	w.group("new", "")
	w.Delete("", "new")
	if w.changes != before+3 {
		t.Errorf("%d changes are told", w.changes-before)
	}
}

func TestNothingIsCopiedForAUserInNoGroupOfAWorkspace(t *testing.T) {
	w := newWorld()
	bob := iamtest.User("bob", iamtest.WithGroups("dev"))
	w.users.Set(bob)
	u := w.users.ByName("bob")
	if n := testing.AllocsPerRun(100, func() { w.Of(u.Info()); w.OfUser(u) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
