package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/request"
)

// WritePassword returns a login.PasswordWriter: it writes the hash of a new password to a User, as by. It is authorized as a PATCH of the
// user by by, here first, then by kube-apiserver.
func WritePassword(c caller.Client) login.PasswordWriter {
	return func(ctx context.Context, by user.Info, u *iam.User, hash string) error {
		metadata := map[string]any{"uid": u.UID} // and of no user created again under the name
		if by.GetName() == u.Name {
			by = proven(by)
			if u.Uninitialized {
				metadata["annotations"] = map[string]any{iamv1beta1.AnnotationUninitialized: nil}
			}
		}
		body, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"password": hash}})
		if err != nil {
			return fmt.Errorf("write the password of user %q: %w", u.Name, err)
		}
		_, err = c.Do(request.WithUser(ctx, by), caller.Order{
			Method: http.MethodPatch, Path: "/apis/" + iamv1beta1.GroupName + "/v1beta1/users/" + u.Name,
			Type: "application/merge-patch+json", Body: body,
		})
		return err
	}
}

// proven returns a user who has just proven the current password, which the policy own-password.users.iam.kapis.dev requires.
func proven(by user.Info) user.Info {
	extra := maps.Clone(by.GetExtra())
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[iam.ExtraProven] = []string{iam.ProvenPassword}
	return &user.DefaultInfo{Name: by.GetName(), UID: by.GetUID(), Groups: by.GetGroups(), Extra: extra}
}

// SessionOfOwnUser returns an extra that names the session in which a caller writes their own User, so that it goes on after their first
// password was set in it.
func SessionOfOwnUser(i *request.Info, by user.Info) map[string][]string {
	if i.APIGroup != iamv1beta1.GroupName || i.Resource != "users" || i.Subresource != "" || i.Name == "" || i.Name != by.GetName() {
		return nil
	}
	s := session.Of(by)
	if s == nil || i.Verb != "patch" && i.Verb != "update" {
		return nil
	}
	return map[string][]string{iamv1beta1.ExtraSession: {s.Fingerprint()}}
}
