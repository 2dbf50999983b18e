package user

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

const (
	// AdminName is the user that the first start creates. The default GlobalRoleBinding of that name gives its rights.
	AdminName = "admin"
	// adminSecret is the Secret that marks the first start, and has the generated password, if any, in the key adminPasswordKey.
	adminSecret = "ks-admin-password"
	// adminPasswordKey is the key of the generated password in adminSecret.
	adminPasswordKey = "password"

	// phaseKey is the annotation of adminSecret with the progress of the first start.
	phaseKey = "kapis.dev/first-start"
	creating = "creating"
	done     = "done"

	// creatorSystem is the creator of what no user made.
	creatorSystem = "system"
)

// errPassword is an error for which retries are no use.
var errPassword = errors.New("the admin's password can't be used")

// Admin creates the first user, once in the life of an installation: a deleted admin is not created again. An
// installation with users has had its first start.
type Admin struct {
	// Client writes, and Live reads without the cache, since this runs once.
	Client client.Client
	Live   client.Reader
	// Namespace is the namespace of the Secret of the first start.
	Namespace string
	// Password is the admin's password, and PasswordFile a file with it; if both are empty, one is generated. Only the
	// first start reads them.
	Password, PasswordFile string
	// Hash returns the hash of a password.
	Hash func(password string) (string, error)
	// Random and Now are the sources of a generated password and of the time.
	Random io.Reader
	Now    func() time.Time
}

// NeedLeaderElection returns true, so that one replica does it.
func (a *Admin) NeedLeaderElection() bool { return true }

// Start tries until the first start is done or ctx ends: CRDs and the namespace may come later. A password that can't
// be used is an error at once.
func (a *Admin) Start(ctx context.Context) error {
	said := ""
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Cap: 30 * time.Second, Steps: 1 << 30}
	for {
		err := a.ensure(ctx)
		switch {
		case err == nil, errors.Is(err, errPassword):
			return err
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			klog.ErrorS(err, "The first user is not there yet; trying again", "user", AdminName)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff.Step()):
		}
	}
}

// ensure does the remaining steps of the first start. A Secret marks it before the first step, so that an interrupted
// start continues where it stopped.
func (a *Admin) ensure(ctx context.Context) error {
	secret, err := a.marker(ctx)
	if err != nil || secret.Annotations[phaseKey] != creating {
		return err
	}
	password, generated := string(secret.Data[adminPasswordKey]), true
	if password == "" {
		generated = false
		if password, err = a.chosen(); err != nil {
			return err
		}
	}
	if err := a.create(ctx, password, generated); err != nil {
		return err
	}
	before := secret.DeepCopy()
	secret.Annotations[phaseKey] = done
	if err := a.Client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("mark the first start as done: %w", err)
	}
	return nil
}

// marker returns adminSecret, and creates it if this is the first start.
func (a *Admin) marker(ctx context.Context) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: a.Namespace, Name: adminSecret}
	secret := &corev1.Secret{}
	err := a.Live.Get(ctx, key, secret)
	if err == nil {
		return secret, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	users := &iamv1beta1.UserList{}
	if err := a.Live.List(ctx, users, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("look for users: %w", err)
	}
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{phaseKey: done}}
	if len(users.Items) == 0 {
		secret.Annotations[phaseKey] = creating
		password, err := a.chosen()
		if err != nil {
			return nil, err
		}
		if password == "" {
			if password, err = generate(a.Random); err != nil {
				return nil, err
			}
			secret.Data = map[string][]byte{adminPasswordKey: []byte(password)}
		}
	}
	if err := a.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("create Secret %s: %w", key, err)
	}
	return secret, nil
}

// chosen returns the configured password, "" for none.
func (a *Admin) chosen() (string, error) {
	password := a.Password
	if a.PasswordFile != "" {
		raw, err := os.ReadFile(a.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("%w: read its file: %w", errPassword, err)
		}
		password = strings.TrimRight(string(raw), "\r\n")
		if password == "" {
			return "", fmt.Errorf("%w: file %s is empty", errPassword, a.PasswordFile)
		}
	}
	if password == "" {
		return "", nil
	}
	if err := checkPassword(password); err != nil {
		return "", fmt.Errorf("%w: %w", errPassword, err)
	}
	return password, nil
}

// create creates the user. A generated password has to be changed at the first login.
func (a *Admin) create(ctx context.Context, password string, generated bool) error {
	if password == "" {
		return fmt.Errorf("%w: an interrupted first start was given one; give it again, or delete Secret %s/%s to have one generated",
			errPassword, a.Namespace, adminSecret)
	}
	hash, err := a.Hash(password)
	if err != nil {
		return fmt.Errorf("hash the admin's password: %w", err)
	}
	u := &iamv1beta1.User{
		ObjectMeta: metav1.ObjectMeta{Name: AdminName, Annotations: map[string]string{
			iamv1beta1.AnnotationLastPasswordChangeTime: a.Now().UTC().Format(time.RFC3339),
			tenantv1beta1.AnnotationCreator:             creatorSystem,
		}},
		Spec: iamv1beta1.UserSpec{Email: AdminName + "@example.com", Password: hash},
	}
	if generated {
		u.Annotations[iamv1beta1.AnnotationUninitialized] = "true"
	}
	if err := a.Client.Create(ctx, u); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create user %q: %w", AdminName, err)
	}
	if generated {
		klog.InfoS("Created the first user; its password is in a Secret, and is to be changed at the first login",
			"user", AdminName, "secret", klog.KRef(a.Namespace, adminSecret), "key", adminPasswordKey)
	} else {
		klog.InfoS("Created the first user with the given password", "user", AdminName)
	}
	return nil
}
