package dynamic

import (
	"net/http"
	"strings"
	"testing"
)

const (
	users = "/kapis/iam.kubesphere.io/v1beta1/users"
	hash  = "$2a$10$canary"
)

func user1(spec string) string {
	return `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"u"},"spec":` + spec + `}`
}

// appliedUser is a user with the annotation of kubectl apply.
func appliedUser(given string) string {
	return `{"metadata":{"name":"u","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + given + `"}},"spec":{}}`
}

func TestAnswersToWritesShowNoPassword(t *testing.T) { // S3, S57
	w := newWorld(t)
	list := `{"kind":"UserList","items":[` + user1(`{"password":"`+hash+`","email":"e"}`) + `,` + user1(`{"password":"`+hash+`"}`) + `]}`
	for _, c := range []struct{ name, method, path, body, answer, want string }{
		{"Create", "POST", users, user1(`{"password":"canary"}`), user1(`{"password":"canary"}`), user1(`{}`)},
		{"Update", "PUT", users + "/u", user1(`{"password":"canary"}`), user1(`{"email":"e","password":"canary"}`), user1(`{"email":"e"}`)},
		{"Patch", "PATCH", users + "/u", `{}`, user1(`{"password":"` + hash + `","email":"e"}`), user1(`{"email":"e"}`)},
		{"PatchOfWhatWasApplied", "PATCH", users + "/u", `{}`, appliedUser(`{\"spec\":{\"password\":\"canary\",\"email\":\"e\"}}`),
			appliedUser(`{\"spec\":{\"email\":\"e\"}}`)},
		{"PatchOfTheStatus", "PATCH", users + "/u/status", `{}`, user1(`{"password":"` + hash + `"}`), user1(`{}`)},
		{"Delete", "DELETE", users + "/u", "", user1(`{"password":"` + hash + `"}`), user1(`{}`)},
		{"DeleteOptionally", "DELETE", users + "/u", "", `{"kind":"Status","status":"Success"}`, `{"kind":"Status","status":"Success"}`},
		{"DeleteCollection", "DELETE", users, "", list, `{"kind":"UserList","items":[` + user1(`{"email":"e"}`) + `,` + user1(`{}`) + `]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.answer = func(seen) (int, string) { return 200, c.answer }
			rec := w.do(t, c.method, c.path, c.body)
			if rec.Code != 200 || rec.Body.String() != c.want {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
	t.Run("ABrokenOneIsNotShownAtAll", func(t *testing.T) {
		w.answer = func(seen) (int, string) { return 200, `{"spec":{"password":"canary"` }
		if rec := w.do(t, "PATCH", users+"/u", `{}`); rec.Code != 500 || strings.Contains(rec.Body.String(), "canary") {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

func TestAPatchShowsNoPasswordElsewhere(t *testing.T) { // S3, S25
	w := newWorld(t)
	for _, op := range []string{
		`{"op":"copy","from":"/spec/password","path":"/metadata/annotations/a"}`, `{"op":"move","from":"/spec/password","path":"/spec/description"}`,
		`{"op":"copy","from":"/spec","path":"/status"}`, `{"op":"copy","from":"","path":"/status"}`, `{"op":"test","path":"/spec/password","value":"x"}`,
		`{"op":"test","path":"/spec","value":{}}`,
		`{"op":"copy","from":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","path":"/metadata/annotations/a"}`,
		`{"op":"test","path":"/metadata/annotations","value":{}}`,
	} {
		w.refused(t, 400, "not shown", "PATCH", users+"/u", "["+op+"]")
	}
	for _, op := range []string{
		`{"op":"replace","path":"/spec/password","value":"Secret-123"}`, `{"op":"copy","from":"/spec/email","path":"/spec/description"}`,
		`{"op":"test","path":"/spec/email","value":"e"}`,
	} {
		if rec := w.do(t, "PATCH", users+"/u", "["+op+"]"); rec.Code != 200 {
			t.Errorf("%s: %d %s", op, rec.Code, rec.Body)
		}
	}
}

func TestWhoWritesBackWhatHeReadKeepsWhatHeDidNotSee(t *testing.T) {
	w := newWorld(t)
	stored := `{"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"email":"old","password":"` + hash + `"}}`
	for _, c := range []struct{ name, stored, body, want string }{
		{"Kept", stored, user1(`{"email":"new"}`),
			`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"u","resourceVersion":"7"},"spec":{"email":"new","password":"` + hash + `"}}`},
		{"KeptWithoutASpec", stored, `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"u","resourceVersion":"7"}}`,
			`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"u","resourceVersion":"7"},"spec":{"password":"` + hash + `"}}`},
		{"NoneThere", `{"metadata":{"uid":"u","resourceVersion":"7"}}`, user1(`{}`),
			`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"u","resourceVersion":"7"},"spec":{}}`},
		{"ANewOneIsANewOne", stored, user1(`{"password":"Secret-123"}`), user1(`{"password":"Secret-123"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.answer = func(s seen) (int, string) {
				if s.method == http.MethodGet {
					if s.accept != typeJSON {
						t.Errorf("looked for %s", s.accept)
					}
					return 200, c.stored
				}
				return 0, ""
			}
			if rec := w.do(t, "PUT", users+"/u", c.body); rec.Code != 200 {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if s := w.only(t); s.body != c.want {
				t.Errorf("sent %s\nwant %s", s.body, c.want)
			}
		})
	}
	t.Run("AnOlderVersionIsRefused", func(t *testing.T) {
		w.answer = func(seen) (int, string) { return 200, stored }
		w.refused(t, 409, "modified", "PUT", users+"/u", `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"resourceVersion":"6"}}`)
	})
}
