// Package iam has what its sub-packages have in common: users and their index, the result of a login, and the errors of
// logins. Each sub-package is one feature of the login.
package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// maxCost is the highest cost of a bcrypt hash that is compared: one of cost 31 would occupy a worker for hours, and anyone with the
// right to write a User could cause that.
const maxCost = 14

// User is the part of a User object that this server keeps. It is immutable.
type User struct {
	Name, UID string
	// FleetUID is the UID that the user has on the hub which keeps it here; "" for a user of this cluster.
	FleetUID string
	State    v1beta1.UserState
	// Since is when the state last changed; zero if unknown.
	Since       time.Time
	DisplayName string
	Email, Lang string
	// Groups are spec.groups without those that only the system gives.
	Groups []string
	// BoundGroups are those that come from GroupBindings.
	BoundGroups []string
	// Links are the identities that the user may log in with.
	Links []Link
	// Uninitialized says that the user has not set a password of their own yet.
	Uninitialized bool
	// Created is when the User was created, and PasswordChanged when the password was last changed; zero if unknown.
	Created, PasswordChanged time.Time
	// PasswordSession is the fingerprint of the session in which the user set the password; empty for none.
	PasswordSession string
	// Deleting says that the object waits for its finalizers.
	Deleting bool

	// credential is the fingerprint that sessions carry; the hash can't be derived from it.
	credential string
	// password returns the bcrypt hash; nil without a password. It is a function because no format verb prints what a function returns.
	password func() []byte
	info     *user.DefaultInfo
}

// Info returns the user for an authorizer: name, UID and groups. It is shared, and must not be changed.
func (u *User) Info() user.Info { return u.info }

// PasswordHash returns the bcrypt hash of the user's password, or nil for a user without one.
func (u *User) PasswordHash() []byte {
	if u.password == nil {
		return nil
	}
	return u.password()
}

// HasPassword reports whether the user has a password here. Users of identity providers have none.
func (u *User) HasPassword() bool { return u.password != nil }

// Credential returns a fingerprint of the password. A session with another one is over.
func (u *User) Credential() string { return u.credential }

// String returns the name and nothing else.
func (u *User) String() string { return "user " + u.Name }

// GoString returns the name and nothing else.
func (u *User) GoString() string { return u.String() }

// RefusalReason returns why the user's sessions and API keys are refused now, or "" if they are good. A user who is locked out for
// wrong passwords keeps them, or anyone could end them by guessing passwords.
func (u *User) RefusalReason() string {
	switch {
	case u.Deleting:
		return "its user is being deleted"
	case u.State == v1beta1.UserActive, u.State == v1beta1.UserAuthLimitExceeded:
		return ""
	case u.State == v1beta1.UserDisabled:
		return "its user is disabled"
	}
	return "its user is not active"
}

// wireUser has the fields of a User that are read.
type wireUser struct {
	Metadata struct {
		Name              string            `json:"name"`
		UID               string            `json:"uid"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
		Labels            map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Email       string   `json:"email"`
		Lang        string   `json:"lang"`
		DisplayName string   `json:"displayName"`
		Groups      []string `json:"groups"`
		Password    string   `json:"password"`
	} `json:"spec"`
	Status struct {
		State v1beta1.UserState `json:"state"`
		Since time.Time         `json:"lastTransitionTime"`
	} `json:"status"`
}

// ParseUser decodes a User. Its errors quote nothing of the object.
func ParseUser(raw []byte) (*User, error) {
	var w wireUser
	if json.Unmarshal(raw, &w) != nil {
		return nil, fmt.Errorf("the object is not a User of %s", v1beta1.GroupName)
	}
	if w.Metadata.Name == "" || w.Metadata.UID == "" {
		return nil, fmt.Errorf("the User has no name or no UID")
	}
	if strings.HasPrefix(w.Metadata.Name, "system:") || strings.HasPrefix(w.Metadata.Name, v1beta1.SyntheticGroupPrefix) {
		return nil, fmt.Errorf("the name is one that only the system has")
	}
	u := &User{
		Name: w.Metadata.Name, UID: w.Metadata.UID, State: w.Status.State, Since: w.Status.Since,
		DisplayName: w.Spec.DisplayName, Email: w.Spec.Email, Lang: w.Spec.Lang,
		Groups:          WithoutSystemGroups(w.Metadata.Name, w.Spec.Groups),
		Uninitialized:   w.Metadata.Annotations[v1beta1.AnnotationUninitialized] == "true",
		PasswordSession: w.Metadata.Annotations[v1beta1.AnnotationPasswordSession],
		Created:         w.Metadata.CreationTimestamp,
		Deleting:        w.Metadata.DeletionTimestamp != nil,
	}
	if w.Metadata.Labels[clusterv1alpha1.LabelFleet] != "" { // the label is the hub's alone, while others may write users
		u.FleetUID = w.Metadata.Annotations[v1beta1.AnnotationFleetUID]
	}
	if bound := w.Metadata.Annotations[v1beta1.AnnotationBoundGroups]; bound != "" {
		u.BoundGroups = strings.Split(bound, ",")
	}
	u.PasswordChanged, _ = time.Parse(time.RFC3339, w.Metadata.Annotations[v1beta1.AnnotationLastPasswordChangeTime])
	u.password, u.credential = readPassword(w.Spec.Password)
	u.Links = readLinks(w.Metadata.Annotations, w.Metadata.Labels)
	if u.State == v1beta1.UserPending && (u.HasPassword() || w.Spec.Password == "" && u.Links != nil) {
		// Pending means that a password has still to be hashed. One that is a hash has been, as webhooks see to, and a linked user without
		// a password has none to hash: only the controller's write of Active is missing, or has not arrived here, and the login need not
		// wait for that. Otherwise a new user would be told for a moment that the account is suspended.
		u.State = v1beta1.UserActive
	}
	u.info = &user.DefaultInfo{Name: u.Name, UID: u.UID,
		Groups: slices.Clip(append(slices.Clone(u.Groups), user.AllAuthenticated))}
	return u, nil
}

// pending is the credential of a user whose new password is not hashed yet. No session carries it.
const pending = "pending"

// readPassword returns a bcrypt hash as it is. A password in clear text is dropped: it never matches.
func readPassword(s string) (hashed func() []byte, credential string) {
	if s == "" {
		return nil, ""
	}
	hash := []byte(s)
	cost, err := bcrypt.Cost(hash)
	if err != nil || cost > maxCost || len(hash) != 60 {
		return nil, pending
	}
	sum := sha256.Sum256(append([]byte("kapis.dev credential 1\x00"), hash...))
	return func() []byte { return hash }, hex.EncodeToString(sum[:])
}

// WithoutSystemGroups drops groups that only the system gives. It drops names with blanks at their ends too, since those are lost on the
// way to kube-apiserver.
func WithoutSystemGroups(name string, groups []string) []string {
	var out []string
	for _, g := range groups {
		if g == "" || strings.TrimSpace(g) != g || strings.HasPrefix(g, "system:") || strings.HasPrefix(g, v1beta1.SyntheticGroupPrefix) {
			klog.InfoS("A user is given a group that only the system gives; the group is left out", "user", name, "group", g)
			continue
		}
		if !slices.Contains(out, g) {
			out = append(out, strings.Clone(g))
		}
	}
	return out
}
