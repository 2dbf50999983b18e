package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/tools/stack"
)

// O38: a shell in a pod of a member is its user's own, and ends with the right to it; the hub lets in who has that right, and no page of another
// site. Files come and go the same way.
func TestAShellOnAMember(t *testing.T) {
	a := admin(t)
	u := newUser(t, "shells")
	const pod = "/api/v1/namespaces/default/pods"
	for _, member := range members {
		name := "shell-" + member
		a.must(t, http.StatusCreated, http.MethodPost, "/clusters/"+member+pod, obj{"apiVersion": "v1", "kind": "Pod", "metadata": obj{"name": name},
			"spec": obj{"containers": []obj{{"name": "shell", "image": "example/shell"}}}})
		eventually(t, "the pod runs", func(context.Context) error {
			phase, err := at(t, member, "-n", "default", "get", "pod", name, "-o", "jsonpath={.status.phase}")
			if err == nil && phase != "Running" {
				err = fmt.Errorf("it is %q", phase)
			}
			return err
		})
		root := "/clusters/" + member + "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/default/pods/" + name
		path := root + "/exec?shell=sh"
		for _, page := range []http.Header{
			{"Cookie": {"token=" + a.token}, "Origin": {"https://foreign.example"}}, {"Cookie": {"token=" + a.token}},
			{"Authorization": {"Bearer " + a.token}, "Origin": {"https://foreign.example"}, "Sec-Fetch-Site": {"cross-site"}},
		} {
			if conn, code := dial(t, path, page); conn != nil || code != http.StatusForbidden {
				t.Errorf("a page with %v: %d", page, code)
			}
		}
		if conn, _ := dial(t, path, http.Header{"Authorization": {"Bearer " + u.token}}); conn != nil {
			t.Error("who holds nothing has a shell")
		}

		first := a.shell(t, path)
		first.types("echo he''llo; exit 3\n")
		first.shows("hello")
		if code := first.ends(); code != websocket.StatusNormalClosure {
			t.Errorf("a shell on %s ends with %d", member, code)
		}

		file := root + "/file?path=/tmp/" + name + ".txt"
		form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + ".txt\"\r\n\r\nwritten\r\n--b--\r\n"
		up, err := product.Do(t.Context(), stack.Request{Method: http.MethodPost, Path: root + "/file?path=/tmp", Token: a.token, Body: []byte(form),
			Header: http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}})
		if err != nil || up.Status != http.StatusOK {
			t.Fatalf("a file for %s: %d %s %v", member, up.Status, up.Body, err)
		}
		if body := a.must(t, http.StatusOK, http.MethodGet, file, nil); !strings.Contains(body, "written") {
			t.Errorf("the file from %s is %q", member, body)
		}

		role := "shells-" + member
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", role,
			obj{"rules": []obj{{"verbs": []string{"get", "create"}, "apiGroups": []string{""}, "resources": []string{"pods/exec"}}}}))
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", named("GlobalRoleBinding", role,
			obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": role},
				"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u.name}}}))
		u.becomes(t, patience, http.StatusBadRequest, http.MethodGet, path, nil) // the right is there, and no WebSocket
		var lasting *shell
		eventually(t, "kube-apiserver of the member knows the right, too", func(context.Context) error {
			lasting = u.shell(t, path)
			if err := lasting.write("echo he''re\n"); err != nil {
				return err
			}
			return lasting.waits("here")
		})
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalrolebindings/"+role, nil)
		lasting.ends() // with the code of the member, or none: the hub, which knows first, ends the connection
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/"+role, nil)
		a.must(t, http.StatusOK, http.MethodDelete, "/clusters/"+member+pod+"/"+name, nil)
	}
}

// O11, O38: a shell on a node of a member is not taken for one of somebody who is gone, although the member knows its user by another UID.
func TestAShellOnANodeOfAMember(t *testing.T) {
	a := admin(t)
	for _, member := range members {
		leases := func() (string, error) {
			return at(t, member, "-n", "kubesphere-node-shells", "get", "leases", "-o", "jsonpath={.items[*].spec.renewTime}")
		}
		node, err := at(t, member, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
		if err != nil {
			t.Fatal(err)
		}
		on := a.shell(t, "/clusters/"+member+"/kapis/terminal.kubesphere.io/v1alpha2/nodes/"+node+"/exec?shell=sh")
		on.types("echo on the no''de\r")
		on.shows("on the node")
		first, err := leases()
		if err != nil || first == "" {
			t.Fatalf("the Lease of a shell on %s: %q %v", member, first, err)
		}
		// It is renewed every 20 s, and what is left over is deleted every 10.
		eventually(t, "the Lease is renewed", func(context.Context) error {
			now, err := leases()
			if err == nil && (now == first || now == "") {
				err = fmt.Errorf("it is %q, as before", now)
			}
			return err
		})
		on.types("echo still he''re\r")
		on.shows("still here")
		on.types("exit\r")
		if code := on.ends(); code != websocket.StatusNormalClosure {
			t.Errorf("a shell on a node of %s ends with %d", member, code)
		}
	}
}

// dial opens a WebSocket at the hub, or returns the code of what refuses it.
func dial(t *testing.T, path string, h http.Header) (*websocket.Conn, int) {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), product.URL+path, &websocket.DialOptions{HTTPHeader: h})
	if res == nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return conn, res.StatusCode
}

// shell is a terminal of a user.
type shell struct {
	t     *testing.T
	conn  *websocket.Conn
	shown string
}

func (u user) shell(t *testing.T, path string) *shell {
	t.Helper()
	conn, code := dial(t, path, http.Header{"Authorization": {"Bearer " + u.token}})
	if conn == nil {
		t.Fatalf("%s of %s: %d", path, u.name, code)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &shell{t: t, conn: conn}
}

// write sends input.
func (s *shell) write(text string) error {
	raw, err := json.Marshal(obj{"Op": "stdin", "Data": text})
	if err != nil {
		return err
	}
	return s.conn.Write(s.t.Context(), websocket.MessageText, raw)
}

func (s *shell) types(text string) {
	s.t.Helper()
	if err := s.write(text); err != nil {
		s.t.Fatal(err)
	}
}

// read reads the next frame, within the patience of the tests.
func (s *shell) read() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	_, raw, err := s.conn.Read(ctx)
	var f struct{ Data string }
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	s.shown += f.Data
	return err
}

// waits returns when a text is shown, or why it is not.
func (s *shell) waits(text string) error {
	for !strings.Contains(s.shown, text) {
		if err := s.read(); err != nil {
			return fmt.Errorf("wait for %q in a shell that shows %q: %w", text, s.shown, err)
		}
	}
	return nil
}

func (s *shell) shows(text string) {
	s.t.Helper()
	if err := s.waits(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends returns the code that the shell ends with, -1 if it has none.
func (s *shell) ends() websocket.StatusCode {
	s.t.Helper()
	for {
		if err := s.read(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				s.t.Fatal("the shell goes on")
			}
			return websocket.CloseStatus(err)
		}
	}
}
