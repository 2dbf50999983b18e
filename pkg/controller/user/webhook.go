package user

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/bcrypt"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// tried replaces the hash in the answer to a dry run: it has the form of a hash, and matches no password.
var tried = "$2a$10$" + strings.Repeat(".", 53)

// hashersAtOnce bounds the cores that hash the passwords of concurrent writes.
const hashersAtOnce = 2

// Defaulter replaces a password by its hash before it is stored, so that etcd never has clear text, and keeps the password of a user that
// is written back without one: no read shows it, and kube-apiserver does not distinguish patches from updates. A password can be replaced,
// but not removed.
type Defaulter struct {
	hash func(password string) (string, error)
	same func(hash, password string) bool
	now  func() time.Time
	turn chan struct{}
	// check is the escalation check of the writes of Users.
	check admission.Handler
}

// NewDefaulter returns a Defaulter; check makes the escalation check of a write.
func NewDefaulter(now func() time.Time, check admission.Handler) *Defaulter {
	return &Defaulter{hash: Hash, now: now, check: check, turn: make(chan struct{}, hashersAtOnce), same: func(hash, password string) bool {
		return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
	}}
}

// Handle implements admission.Handler.
func (d *Defaulter) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.SubResource != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	u, err := fields(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	before, kept := "", ""
	if len(req.OldObject.Raw) > 0 {
		old, err := fields(req.OldObject.Raw)
		if err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		before, kept = password(old), passwordSession(old)
	}
	want, err := d.password(ctx, u, before, req)
	switch {
	case err != nil && ctx.Err() != nil:
		return admission.Errored(http.StatusServiceUnavailable, err)
	case err != nil:
		return admission.Errored(http.StatusUnprocessableEntity, err)
	case want != before:
		kept = sessionOf(req)
	}
	if want == password(u) && kept == passwordSession(u) {
		return admission.Allowed("")
	}
	if err := d.put(u, want, kept, req); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encode the user: %w", err))
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, raw)
}

// password returns the value to be stored for that of a user.
func (d *Defaulter) password(ctx context.Context, u map[string]any, before string, req admission.Request) (string, error) {
	given := password(u)
	switch {
	case given == "":
		return before, nil
	case isHash(given):
		return given, nil
	}
	if err := checkPassword(given); err != nil {
		return "", fmt.Errorf("spec.password: %w", err)
	}
	if req.DryRun != nil && *req.DryRun {
		return tried, nil
	}
	compares := isHash(before) && d.mayReplace(ctx, u, req)
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return "", errors.New("too many passwords are hashed at once; try again")
	}
	hash, err := d.hash(given)
	// Applying a file again does not change the password, which would end sessions. It is hashed all the same: a write that fails for another
	// reason takes as long, whether or not the password is the same.
	if err == nil && compares && d.same(before, given) {
		return before, nil
	}
	return hash, err
}

// mayReplace reports whether the writer may set any other password. The same one is no change, which nobody is refused: a writer who may
// set none would learn by that whether a guess is right, and no guess would be counted. With an API key no password is set, and one's own
// with the current one only, by ks-apiserver, which sends a hash.
func (d *Defaulter) mayReplace(ctx context.Context, u map[string]any, req admission.Request) bool {
	if req.UserInfo.Username == req.Name || len(req.UserInfo.Extra[iamv1beta1.ExtraCredential]) > 0 {
		return false
	}
	other, dryRun := runtime.DeepCopyJSON(u), true
	if unstructured.SetNestedField(other, tried, "spec", "password") != nil {
		return false
	}
	raw, err := json.Marshal(other)
	if err != nil {
		return false
	}
	req.Object.Raw, req.DryRun = raw, &dryRun
	return d.check.Handle(ctx, req).Allowed
}

// passwordSession returns the annotation of that name.
func passwordSession(u map[string]any) string {
	a, _, _ := unstructured.NestedStringMap(u, "metadata", "annotations") //nolint:errcheck // as in password
	return a[iamv1beta1.AnnotationPasswordSession]
}

// sessionOf returns the fingerprint of the session in which a user writes their own User, "" for any other write.
func sessionOf(req admission.Request) string {
	if s := req.UserInfo.Extra[iamv1beta1.ExtraSession]; len(s) == 1 && req.UserInfo.Username == req.Name {
		return s[0]
	}
	return ""
}

// put writes the hash in place of the password: into the object, and into kubectl's annotation with the applied file; and the session in
// which it was set.
func (d *Defaulter) put(u map[string]any, hash, session string, req admission.Request) error {
	if hash == "" {
		unstructured.RemoveNestedField(u, "spec", "password")
	} else if err := unstructured.SetNestedField(u, hash, "spec", "password"); err != nil {
		return fmt.Errorf("set the password: %w", err)
	}
	annotations, _, err := unstructured.NestedStringMap(u, "metadata", "annotations")
	if err != nil {
		return fmt.Errorf("read the annotations: %w", err)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	if applied, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		if file, err := fields([]byte(applied)); err != nil {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
		} else if password(file) != "" {
			if err := unstructured.SetNestedField(file, hash, "spec", "password"); err != nil {
				return fmt.Errorf("set the password: %w", err)
			}
			raw, err := json.Marshal(file)
			if err != nil {
				return fmt.Errorf("encode what was applied: %w", err)
			}
			annotations[corev1.LastAppliedConfigAnnotation] = string(raw) + "\n"
		}
	}
	// For an existing user, the controller records the change: users may not write these annotations of their own User.
	if req.Operation == admissionv1.Create && hash != tried && hash != "" {
		annotations[iamv1beta1.AnnotationPasswordFingerprint] = fingerprint(hash)
		annotations[iamv1beta1.AnnotationLastPasswordChangeTime] = d.now().UTC().Format(time.RFC3339)
	}
	delete(annotations, iamv1beta1.AnnotationPasswordSession)
	if session != "" {
		annotations[iamv1beta1.AnnotationPasswordSession] = session
	}
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(u, "metadata", "annotations")
		return nil
	}
	return unstructured.SetNestedStringMap(u, annotations, "metadata", "annotations")
}

// fields decodes an object. Its error shows nothing of it.
func fields(raw []byte) (map[string]any, error) {
	var out map[string]any
	if err := kjson.Unmarshal(raw, &out); err != nil {
		return nil, errors.New("the user can't be read: it is no JSON object")
	}
	return out, nil
}

func password(u map[string]any) string {
	p, _, _ := unstructured.NestedString(u, "spec", "password") //nolint:errcheck // of another type it is none, and kube-apiserver refuses it
	return p
}

// emailField is the index of Users by their e-mail, in the form of iam.EmailKey.
const emailField = "kapis.dev/email"

// emailIndex is the index function.
func emailIndex(o client.Object) []string {
	if u, ok := o.(*iamv1beta1.User); ok && u.Spec.Email != "" {
		return []string{iam.EmailKey(u.Spec.Email)}
	}
	return nil
}

// Index indexes users by their e-mail, as a Validator requires. It is called once for a cache, when kube-apiserver knows Users.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &iamv1beta1.User{}, emailField, emailIndex); err != nil {
		return fmt.Errorf("index users by their e-mail address: %w", err)
	}
	return nil
}

// Validator refuses an invalid e-mail, and one that another user has: users log in with it.
type Validator struct {
	// Users is queried by the index that Index makes. It may lag by a moment: two concurrent writes can both pass.
	Users client.Reader
}

// Handle implements admission.Handler.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.SubResource != "" || req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	email, err := emailOf(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if old, err := emailOf(req.OldObject.Raw); email == "" || err == nil && iam.EmailKey(old) == iam.EmailKey(email) {
		return admission.Allowed("") // invalid e-mails of an older installation stay
	}
	if !isEmail(email) {
		return admission.Errored(http.StatusUnprocessableEntity, errors.New("spec.email: it is no e-mail address, such as ann@example.com"))
	}
	var taken iamv1beta1.UserList
	if err := v.Users.List(ctx, &taken, client.MatchingFields{emailField: iam.EmailKey(email)}, client.UnsafeDisableDeepCopy); err != nil {
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("see whether the e-mail address is taken: %w", err))
	}
	for i := range taken.Items {
		if taken.Items[i].Name != req.Name {
			return admission.Errored(http.StatusConflict, errors.New("spec.email: another user has this address"))
		}
	}
	return admission.Allowed("")
}

func emailOf(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	u, err := fields(raw)
	if err != nil {
		return "", err
	}
	email, _, err := unstructured.NestedString(u, "spec", "email")
	if err != nil {
		return "", errors.New("spec.email: it has to be a string")
	}
	return email, nil
}

// isEmail reports whether mail could be sent to an address (RFC 5321, 4.5.3.1: 64 and 255 octets).
func isEmail(s string) bool {
	name, host, ok := strings.Cut(s, "@")
	return ok && name != "" && len(name) <= 64 && host != "" && len(s) <= 254 && !strings.ContainsAny(s, " <>,;\"") &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) && // nor blanks that are seen as none
		!strings.Contains(host, "@") && !strings.HasPrefix(host, ".") && !strings.HasSuffix(host, ".") && !strings.Contains(host, "..")
}
