package user

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// hashOf returns a fake hash of a password.
func hashOf(p string) string {
	sum := sha256.Sum256([]byte(p))
	return "$2a$10$" + hex.EncodeToString(sum[:])[:53]
}

func newDefaulter() *Defaulter {
	d := NewDefaulter(func() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) }, admission.HandlerFunc(
		func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }))
	d.hash = func(p string) (string, error) { return hashOf(p), nil }
	d.same = func(h, p string) bool { return h == hashOf(p) }
	return d
}

// review returns a request; kind is the kind of its options.
func review(op admissionv1.Operation, kind, object, old string) admission.Request {
	req := admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: op,
			Name:      "ann",
			Object:    runtime.RawExtension{Raw: []byte(object)},
			Options:   runtime.RawExtension{Raw: []byte(`{"kind":"` + kind + `"}`)},
		},
	}
	if old != "" {
		req.OldObject.Raw = []byte(old)
	}
	return req
}

// after returns the object as it would be stored.
func after(t *testing.T, req admission.Request, resp admission.Response) map[string]any {
	t.Helper()
	raw := req.Object.Raw
	if len(resp.Patches) > 0 {
		ops, err := json.Marshal(resp.Patches)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(ops)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			t.Fatal(err)
		}
	}
	u, err := fields(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func withPassword(p string) string {
	return `{"metadata":{"name":"ann"},"spec":{"password":"` + p + `"}}`
}

func TestAPasswordIsHashedBeforeItIsStored(t *testing.T) { // S57
	const clear, other = "Clear-text-1", "Other-text-2"
	for name, c := range map[string]struct {
		op                admissionv1.Operation
		kind, object, old string
		want              string
	}{
		"ANewUser":                  {admissionv1.Create, "CreateOptions", withPassword(clear), "", hashOf(clear)},
		"ANewPassword":              {admissionv1.Update, "PatchOptions", withPassword(other), withPassword(hashOf(clear)), hashOf(other)},
		"AHashStays":                {admissionv1.Update, "PatchOptions", withPassword(hashOf(other)), withPassword(hashOf(clear)), hashOf(other)},
		"TheSamePasswordIsNoChange": {admissionv1.Update, "PatchOptions", withPassword(clear), withPassword(hashOf(clear)), hashOf(clear)},
		"AReplacementWithoutKeepsIt": {admissionv1.Update, "UpdateOptions", `{"metadata":{"name":"ann"},"spec":{"lang":"en"}}`, withPassword(hashOf(clear)),
			hashOf(clear)},
		"AReplacementWithEmpty":    {admissionv1.Update, "UpdateOptions", withPassword(""), withPassword(hashOf(clear)), hashOf(clear)},
		"AReplacementWithoutASpec": {admissionv1.Update, "UpdateOptions", `{"metadata":{"name":"ann"}}`, withPassword(hashOf(clear)), hashOf(clear)},
		"APatchKeepsItToo":         {admissionv1.Update, "PatchOptions", `{"metadata":{"name":"ann"},"spec":{}}`, withPassword(hashOf(clear)), hashOf(clear)},
		"AUserWithoutOne":          {admissionv1.Create, "CreateOptions", `{"metadata":{"name":"ann"}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := review(c.op, c.kind, c.object, c.old)
			resp := newDefaulter().Handle(t.Context(), req)
			if !resp.Allowed {
				t.Fatalf("refused: %v", resp.Result)
			}
			if got := password(after(t, req, resp)); got != c.want {
				t.Errorf("stored is %q, want %q", got, c.want)
			}
		})
	}
}

// D12: the session in which a user sets his own password is noted with it, and by nobody's hand.
func TestD12TheSessionOfAPasswordIsNoted(t *testing.T) {
	const annotation = iamv1beta1.AnnotationPasswordSession
	user := func(password, session string) string {
		if session == "" {
			return withPassword(password)
		}
		return `{"metadata":{"name":"ann","annotations":{"` + annotation + `":"` + session + `"}},"spec":{"password":"` + password + `"}}`
	}
	was, clear := hashOf("Clear-text-1"), "Other-text-2"
	for name, c := range map[string]struct {
		object, old string
		by          string
		session     []string
		want        string
	}{
		"the user's own write": {
			object:  user(clear, ""),
			old:     user(was, ""),
			by:      "ann",
			session: []string{"s1"},
			want:    "s1",
		},
		"a hash of his own": {
			object:  user(hashOf("x"), "s0"),
			old:     user(was, "s0"),
			by:      "ann",
			session: []string{"s1"},
			want:    "s1",
		},
		"without a session": {
			object: user(clear, "s0"),
			old:    user(was, "s0"),
			by:     "ann",
		},
		"two sessions are none": {
			object:  user(clear, "s0"),
			old:     user(was, "s0"),
			by:      "ann",
			session: []string{"s1", "s2"},
		},
		"another's password": {
			object:  user(clear, "s0"),
			old:     user(was, "s0"),
			by:      "bob",
			session: []string{"s1"},
		},
		"the same password": {
			object:  user("Clear-text-1", "s0"),
			old:     user(was, "s0"),
			by:      "bob",
			session: []string{"s1"},
			want:    "s0",
		},
		"the annotation alone": {
			object:  user(was, "s1"),
			old:     user(was, "s0"),
			by:      "ann",
			session: []string{"s1"},
			want:    "s0",
		},
		"the annotation on a user who had none": {
			object: user(was, "s1"),
			old:    user(was, ""),
			by:     "bob",
		},
		"the annotation taken away": {
			object: user(was, ""),
			old:    user(was, "s0"),
			by:     "bob",
			want:   "s0",
		},
		"the annotation on a user without a password": {
			object: user("", "s1"),
			old:    user("", ""),
			by:     "bob",
		},
		"a new user": {
			object:  user(clear, "s1"),
			by:      "bob",
			session: []string{"s1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			op := admissionv1.Update
			if c.old == "" {
				op = admissionv1.Create
			}
			req := review(op, "PatchOptions", c.object, c.old)
			req.UserInfo.Username = c.by
			req.UserInfo.Extra = map[string]authenticationv1.ExtraValue{iamv1beta1.ExtraSession: c.session}
			resp := newDefaulter().Handle(t.Context(), req)
			if !resp.Allowed {
				t.Fatalf("refused: %v", resp.Result)
			}
			stored := after(t, req, resp)
			if got := passwordSession(stored); got != c.want {
				t.Errorf("noted is %q, want %q", got, c.want)
			}
			if p := password(stored); p == clear {
				t.Error("the password is stored in clear")
			}
		})
	}
}

func TestWhatKubectlAppliedHasTheHashToo(t *testing.T) { // S57
	const clear = "Clear-text-1"
	object := func(applied string) string {
		quoted, _ := json.Marshal(applied) //nolint:errchkjson // a string
		return `{"metadata":{"name":"ann","annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":` + string(
			quoted,
		) + `}},"spec":{"password":"` + clear + `"}}`
	}
	for name, c := range map[string]struct{ applied, want string }{
		"TheSameFile":     {`{"spec":{"password":"` + clear + `","lang":"en"}}`, hashOf(clear)},
		"AnOlderFile":     {`{"spec":{"password":"An-older-1"}}`, hashOf(clear)},
		"WithoutPassword": {`{"spec":{"lang":"en"}}`, `"lang":"en"`},
		"NoJSON":          {clear, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := review(admissionv1.Update, "PatchOptions", object(c.applied), withPassword(hashOf("x")))
			raw, err := json.Marshal(after(t, req, newDefaulter().Handle(t.Context(), req)))
			if err != nil || strings.Contains(string(raw), clear+`\"`) || strings.Contains(string(raw), "An-older-1") || !strings.Contains(string(raw), `"a":"b"`) {
				t.Errorf("stored is %s, %v", raw, err)
			}
			if applied := after(t, req, newDefaulter().
				Handle(t.Context(), req))["metadata"].(map[string]any)["annotations"].(map[string]any)["kubectl.kubernetes.io/last-applied-configuration"]; c.want == "" &&
				applied != nil || c.want != "" && !strings.Contains(applied.(string), c.want) {
				t.Errorf("applied is %v, want %s in it", applied, c.want)
			}
		})
	}
}

func TestOnlyANewUsersChangeIsNotedAtOnce(t *testing.T) {
	for op, want := range map[admissionv1.Operation]bool{admissionv1.Create: true, admissionv1.Update: false} {
		req := review(op, "PatchOptions", withPassword("Clear-text-1"), "")
		u := after(t, req, newDefaulter().Handle(t.Context(), req))
		annotations, _ := u["metadata"].(map[string]any)["annotations"].(map[string]any)
		if (annotations[iamv1beta1.AnnotationLastPasswordChangeTime] == "2026-11-21T00:00:00Z") != want ||
			(annotations[iamv1beta1.AnnotationPasswordFingerprint] == fingerprint(hashOf("Clear-text-1"))) != want {
			t.Errorf("%s: %v", op, annotations)
		}
	}
}

func TestABadPasswordIsRefusedWithoutBeingTold(t *testing.T) {
	for name, p := range map[string]string{"Short": "Ab1", "Simple": "onlyletters", "TooLongForBcrypt": "Aa1" + strings.Repeat("ä", 40)} {
		resp := newDefaulter().Handle(t.Context(), review(admissionv1.Create, "CreateOptions", withPassword(p), ""))
		if resp.Allowed || resp.Result.Code != http.StatusUnprocessableEntity || strings.Contains(resp.Result.Message, p) {
			t.Errorf("%s: %v %v", name, resp.Allowed, resp.Result)
		}
	}
}

// S47: only a write by somebody who may set any other password is told that it is the same. For all others a right guess is a change, as a
// wrong one is, which the validators refuse.
func TestS47AWriteTellsWhetherAPasswordIsRightOnlyToWhoMaySetIt(t *testing.T) {
	const clear = "Clear-text-1"
	for name, c := range map[string]struct {
		by      string
		extra   map[string]authenticationv1.ExtraValue
		allowed bool
		same    bool
	}{
		"WhoMaySetIt":       {by: "bob", allowed: true, same: true},
		"WhoMayNot":         {by: "bob"},
		"TheUser":           {by: "ann", allowed: true},
		"AnAPIKey":          {by: "bob", allowed: true, extra: map[string]authenticationv1.ExtraValue{iamv1beta1.ExtraCredential: {"api-key"}}},
		"AnyOtherOfTheKind": {by: "bob", allowed: true, extra: map[string]authenticationv1.ExtraValue{iamv1beta1.ExtraCredential: {"x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDefaulter()
			hashed := 0
			d.hash = func(p string) (string, error) { hashed++; return hashOf("salt " + p), nil }
			d.check = admission.HandlerFunc(func(_ context.Context, asked admission.Request) admission.Response {
				u, err := fields(asked.Object.Raw)
				if err != nil || password(u) != tried || asked.DryRun == nil || !*asked.DryRun || asked.Operation != admissionv1.Update ||
					string(asked.OldObject.Raw) != withPassword(hashOf(clear)) {
					t.Errorf("asked about %s, %v", asked.Object.Raw, err)
				}
				return admission.ValidationResponse(c.allowed, "")
			})
			req := review(admissionv1.Update, "PatchOptions", withPassword(clear), withPassword(hashOf(clear)))
			req.UserInfo.Username, req.UserInfo.Extra = c.by, c.extra
			want := hashOf("salt " + clear)
			if c.same {
				want = hashOf(clear)
			}
			if got := password(after(t, req, d.Handle(t.Context(), req))); got != want || hashed != 1 {
				t.Errorf("stored is %q, want %q; hashed %d times", got, want, hashed)
			}
		})
	}
}

func TestADryRunHashesNothing(t *testing.T) {
	d, yes := newDefaulter(), true
	d.hash = func(string) (string, error) { return "", errors.New("hashed") }
	req := review(admissionv1.Create, "CreateOptions", withPassword("Clear-text-1"), "")
	req.DryRun = &yes
	resp := d.Handle(t.Context(), req)
	if got := password(after(t, req, resp)); !resp.Allowed || got != tried || !isHash(got) {
		t.Errorf("%v, stored would be %q", resp.Allowed, got)
	}
	if NewDefaulter(time.Now, nil).same(tried, "Clear-text-1") {
		t.Error("it is the hash of a password")
	}
}

func TestHashesOfManyWritesTakeTurns(t *testing.T) {
	d := newDefaulter()
	for range hashersAtOnce {
		d.turn <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp := d.Handle(ctx, review(admissionv1.Create, "CreateOptions", withPassword("Clear-text-1"), ""))
	if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("%v %v", resp.Allowed, resp.Result)
	}
}

func TestWhatIsNotToBeReadIsRefusedOrLeft(t *testing.T) {
	d := newDefaulter()
	for name, c := range map[string]struct {
		req     admission.Request
		allowed bool
	}{
		"NoObject":    {review(admissionv1.Create, "", `[]`, ""), false},
		"NoOldObject": {review(admissionv1.Update, "", withPassword("Clear-text-1"), `[]`), false},
		"ADeletion":   {review(admissionv1.Delete, "", `[]`, ""), true},
	} {
		if resp := d.Handle(t.Context(), c.req); resp.Allowed != c.allowed {
			t.Errorf("%s: %v", name, resp.Result)
		}
	}
	status := review(admissionv1.Update, "", `[]`, "")
	status.SubResource = "status"
	if resp := d.Handle(t.Context(), status); !resp.Allowed {
		t.Errorf("the status: %v", resp.Result)
	}
}

// FuzzDefaulter checks that, whatever is written, no clear text is stored.
func FuzzDefaulter(f *testing.F) {
	f.Add("Clear-text-1", "{}")
	f.Add("", `{"spec":{"password":1}}`)
	f.Add("$2a$10$", "null")
	f.Fuzz(func(t *testing.T, p, applied string) {
		object, err := json.Marshal(
			map[string]any{
				"metadata": map[string]any{"name": "x", "annotations": map[string]string{"kubectl.kubernetes.io/last-applied-configuration": applied}},
				"spec":     map[string]any{"password": p},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		req := review(admissionv1.Create, "CreateOptions", string(object), "")
		resp := newDefaulter().Handle(t.Context(), req)
		if !resp.Allowed {
			return
		}
		if got := password(after(t, req, resp)); got != "" && !isHash(got) {
			t.Errorf("%q is stored as %q", p, got)
		}
	})
}

func email(address string) string {
	return `{"metadata":{"name":"ann"},"spec":{"email":"` + address + `"}}`
}

func TestAnAddressIsOneAndOneUsersOnly(t *testing.T) {
	bob, ann := &iamv1beta1.User{}, &iamv1beta1.User{}
	bob.Name, bob.Spec.Email = "bob", "Bob@Example.com"
	ann.Name, ann.Spec.Email = "ann", "ann@example.com"
	v := &Validator{Users: fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(bob, ann).WithIndex(&iamv1beta1.User{}, emailField, emailIndex).Build()}
	for name, c := range map[string]struct {
		now, old string
		code     int32
	}{
		"AFreeOne":              {email("new@example.com"), "", 200},
		"None":                  {email(""), "", 200},
		"OnesOwn":               {email("ann@example.com"), email("x@example.com"), 200},
		"Anothers":              {email("Bob@Example.com"), "", 409},
		"AnothersInOtherCase":   {email("bob@eXample.com"), "", 409},
		"AnothersAsItWas":       {email("bob@example.com"), email("bob@example.com"), 200},
		"ABadOneAsItWas":        {email("a b@c"), email("a b@c"), 200},
		"NoHost":                {email("ann@"), "", 422},
		"NoName":                {email("@example.com"), "", 422},
		"TwoHosts":              {email("a@b@c"), "", 422},
		"ASpace":                {email("a b@c.com"), "", 422},
		"ADotAtTheEnd":          {email("a@c."), "", 422},
		"TwoDots":               {email("a@c..com"), "", 422},
		"ALongName":             {email(strings.Repeat("a", 65) + "@c.com"), "", 422},
		"ALongOne":              {email("a@" + strings.Repeat("a", 253)), "", 422},
		"OfAnotherType":         {`{"spec":{"email":1}}`, "", 400},
		"NoObject":              {`[]`, "", 400},
		"ABindingOfHeaderLines": {email(`a\nb@c.com`), "", 422},
		// A login cuts blanks, so that these would be bob's.
		"ANoBreakSpaceBehind": {email("bob@example.com\u00a0"), "", 422},
		"ANoBreakSpaceBefore": {email("\u00a0bob@example.com"), "", 422},
		"ANextLine":           {email("bob@example.com\u0085"), "", 422},
		"AnEmSpace":           {email("bob@example.com\u2003"), "", 422},
		"AVerticalTab":        {email(`bob@example.com\u000b`), "", 422},
		"ASpaceOfNoWidth":     {email("bob\u200b@example.com"), "", 422},
		"ABlankOneAsItWas":    {email("bob@example.com\u2003"), email("bob@example.com\u2003"), 200},
		"OthersLetters":       {email("jürgen@example.com"), "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			if resp := v.Handle(t.Context(), review(admissionv1.Update, "UpdateOptions", c.now, c.old)); resp.Result.Code != c.code {
				t.Errorf("%v, want %d", resp.Result, c.code)
			}
		})
	}
	unindexed := &Validator{Users: fake.NewClientBuilder().WithScheme(kube.Scheme()).Build()}
	if resp := unindexed.Handle(t.Context(), review(admissionv1.Create, "", email("new@example.com"), "")); resp.Allowed ||
		resp.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("without an index: %v", resp.Result)
	}
	if resp := v.Handle(t.Context(), review(admissionv1.Delete, "", `[]`, "")); !resp.Allowed {
		t.Error("a deletion is refused")
	}
	if got := emailIndex(&iamv1beta1.User{}); got != nil {
		t.Errorf("no address is indexed as %q", got)
	}
}
