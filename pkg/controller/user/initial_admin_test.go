package user

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func first(t *testing.T, objects ...client.Object) *Admin {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build()
	return &Admin{Client: c, Live: c, Namespace: "kubesphere-system", Hash: fastHash, Random: rand.Reader, Now: func() time.Time { return now }}
}

func (a *Admin) user(t *testing.T) *iamv1beta1.User {
	t.Helper()
	u := &iamv1beta1.User{}
	if err := a.Live.Get(ctx, types.NamespacedName{Name: "admin"}, u); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	return u
}

func (a *Admin) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := a.Live.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: adminSecret}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, a *Admin) {
	t.Helper()
	if err := a.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func passwordFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func matches(u *iamv1beta1.User, password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(u.Spec.Password), []byte(password)) == nil
}

func TestTheFirstStartGeneratesAPassword(t *testing.T) {
	a := first(t)
	start(t, a)
	u, password := a.user(t), string(a.secret(t).Data[adminPasswordKey])
	if checkPassword(password) != nil || !matches(u, password) {
		t.Errorf("the password %q is not the user's", password)
	}
	if u.Annotations[iamv1beta1.AnnotationUninitialized] != "true" || u.Annotations[iamv1beta1.AnnotationLastPasswordChangeTime] == "" ||
		u.Annotations["kubesphere.io/creator"] != "system" {
		t.Errorf("annotations %v", u.Annotations)
	}
}

func TestTheFirstStartTakesAPassword(t *testing.T) {
	for name, give := range map[string]func(*Admin){
		"FromAFile":   func(a *Admin) { a.PasswordFile = passwordFile(t, "Chosen-1234\n") },
		"AsAValue":    func(a *Admin) { a.Password = "Chosen-1234" },
		"TheFileWins": func(a *Admin) { a.Password, a.PasswordFile = "Other-12345", passwordFile(t, "Chosen-1234") },
	} {
		t.Run(name, func(t *testing.T) {
			a := first(t)
			give(a)
			start(t, a)
			u := a.user(t)
			if !matches(u, "Chosen-1234") {
				t.Error("it is not the user's")
			}
			if _, set := u.Annotations[iamv1beta1.AnnotationUninitialized]; set {
				t.Error("a chosen password has to be changed")
			}
			if len(a.secret(t).Data) != 0 {
				t.Error("a chosen password is in the Secret")
			}
		})
	}
}

func TestALaterStartChangesNothing(t *testing.T) {
	t.Run("ADeletedAdminStaysDeleted", func(t *testing.T) {
		a := first(t)
		start(t, a)
		if err := a.Client.Delete(ctx, a.user(t)); err != nil {
			t.Fatal(err)
		}
		start(t, a)
		if a.user(t) != nil {
			t.Error("the admin is back")
		}
	})
	t.Run("AnAdminThatIsThereStays", func(t *testing.T) {
		a := first(t, person("admin", "whatever"))
		start(t, a)
		if u := a.user(t); u.Spec.Password != "whatever" || len(u.Annotations) != 0 {
			t.Errorf("the admin became %+v", u)
		}
	})
	t.Run("AnInstallationWithUsersGetsNoAdmin", func(t *testing.T) {
		a := first(t, person("boss", "whatever"))
		start(t, a)
		if a.user(t) != nil {
			t.Error("an admin came to an installation that is in use")
		}
		start(t, a)
	})
	t.Run("ThePasswordFileMayBeGone", func(t *testing.T) {
		a := first(t, person("admin", "whatever"))
		a.PasswordFile = "/nowhere/at/all"
		start(t, a)
	})
}

func TestAnInterruptedFirstStartGoesOn(t *testing.T) {
	for name, give := range map[string]string{"Generated": "", "Chosen": "Chosen-1234"} {
		t.Run(name, func(t *testing.T) {
			a := first(t)
			a.Password = give
			whole := a.Client
			a.Client = interceptor.NewClient(whole.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if _, ok := o.(*iamv1beta1.User); ok {
						return errors.New("pulled the plug")
					}
					return c.Create(ctx, o, opts...)
				},
			})
			if err := a.ensure(ctx); err == nil {
				t.Fatal("no error")
			}
			a.Client = whole
			start(t, a)
			want := give
			if want == "" {
				want = string(a.secret(t).Data[adminPasswordKey])
			}
			if u := a.user(t); u == nil || !matches(u, want) {
				t.Error("the admin is not there")
			}
		})
	}
}

func TestAPasswordThatCannotBeUsedIsAnErrorAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ password, file, says string }{
		"TooWeak":     {"weakweakweak", "", "upper-case"},
		"TooShort":    {"Ab1", "", "8 to 64"},
		"TooLong":     {strings.Repeat("Ab1", 22), "", "8 to 64"},
		"NoFile":      {"", "/nowhere/at/all", "/nowhere/at/all"},
		"AnEmptyFile": {"", passwordFile(t, "\n"), "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			a := first(t)
			a.Password, a.PasswordFile = c.password, c.file
			err := a.Start(ctx)
			if err == nil || !strings.Contains(err.Error(), c.says) || c.password != "" && strings.Contains(err.Error(), c.password) {
				t.Errorf("the error is %v", err)
			}
			if a.user(t) != nil {
				t.Error("there is an admin")
			}
		})
	}
}

func TestItEndsWithTheProgram(t *testing.T) {
	a := first(t)
	a.Live = interceptor.NewClient(a.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("down")
		},
	})
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := a.Start(stopped); err != nil {
		t.Error(err)
	}
}

func TestGeneratedPasswordsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		p, err := generate(rand.Reader)
		if err != nil || checkPassword(p) != nil || seen[p] || len(p) != generatedLength {
			t.Fatalf("%q, %v", p, err)
		}
		seen[p] = true
	}
	if _, err := generate(strings.NewReader("short")); err == nil {
		t.Error("no error without randomness")
	}
}

func TestTheMarkerIsNotMistaken(t *testing.T) {
	a := first(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubesphere-system", Name: adminSecret}})
	start(t, a)
	if a.user(t) != nil {
		t.Error("a Secret of that name without the mark of an interrupted start led to an admin")
	}
}
