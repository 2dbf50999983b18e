package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// uploadOf returns a form with one file, and its type as a header.
func uploadOf(t *testing.T, name, content string) (form, contentType string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("file", name)
	if err == nil {
		_, err = io.WriteString(part, content)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), "Content-Type: " + m.FormDataContentType()
}

// Files of a container are those of callers who may create pods/exec of core/v1 there, here and at kube-apiserver, and arrive as they were
// sent. The simulated containers have this machine's files.
func TestFilesOfAContainerAreItsUsersOwn(t *testing.T) { // O1, O7
	ns := newNamespace(t)
	pod := newPod(t, ns)
	path := terminalOf(pod) + "/file"
	role(t, ns, "opens", rule{[]string{""}, []string{"pods/exec"}, []string{"create"}})
	role(t, ns, "reads", rule{[]string{"", "terminal.kubesphere.io"}, []string{"pods", "pods/exec", "pods/file"}, []string{"get", "list", "watch"}})
	role(t, ns, "writes", rule{[]string{"terminal.kubesphere.io"}, []string{"pods/exec", "pods/file"}, []string{"*"}})
	users := map[string]caller{"nobody": newUser(t, unique("nobody")), "stranger": anonymous()}
	for _, name := range []string{"opens", "reads", "writes"} {
		user := unique(name)
		users[name] = newUser(t, user)
		bind(t, ns, name, map[string]any{"kind": "User", "name": user})
	}
	opens := users["opens"]
	dir := t.TempDir()
	to := path + "?container=web&path=" + url.QueryEscape(dir)
	content := strings.Repeat("\x00\xff\r\n0123456789ab", 1<<18) // 4 MiB, more than an object of the API may have
	form, contentType := uploadOf(t, "a ü'$(id).bin", content)
	eventually(t, "the right counts", opens.is(http.StatusBadRequest, http.MethodGet, path+"?path=relative"))
	eventually(t, "the reader's too", users["reads"].is(http.StatusOK, http.MethodGet, pod))
	eventually(t, "kube-apiserver knows the role", func(ctx context.Context) error {
		r, err := opens.do(ctx, http.MethodPost, pod+"/exec?command=true&stdout=true", nil)
		if err == nil && r.code == http.StatusForbidden {
			err = errors.New(r.body)
		}
		return err
	})
	small, smallType := uploadOf(t, "refused", "x")
	for who, c := range users {
		if who == "opens" {
			continue
		}
		c.must(t, http.StatusForbidden, http.MethodPost, to, small, smallType)
		c.must(t, http.StatusForbidden, http.MethodGet, path+"?path=/etc/hostname", nil)
	}
	opens.must(t, http.StatusForbidden, http.MethodPost, strings.Replace(to, ns, "kubesphere-system", 1), small, smallType)
	foreign := "Origin: https://foreign.example"
	opens.must(t, http.StatusForbidden, http.MethodPost, to, small, smallType, foreign, "Sec-Fetch-Site: cross-site")
	anonymous().must(t, http.StatusForbidden, http.MethodPost, to, small, smallType, "Cookie: token="+opens.token, foreign)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Fatalf("a refused upload has left %v, %v", left, err)
	}

	configz := opens.must(t, http.StatusOK, http.MethodGet, "/kapis/config.kubesphere.io/v1alpha2/configs/configz", nil)
	if want := `"terminal":{"uploadFileLimit":"100Mi"}`; !strings.Contains(configz.body, want) {
		t.Errorf("the console learns %s, want %s", configz.body, want)
	}
	opens.must(t, http.StatusOK, http.MethodPost, to, form, contentType)
	if got, err := os.ReadFile(filepath.Join(dir, "a ü'$(id).bin")); err != nil || string(got) != content {
		t.Fatalf("of %d bytes %d arrived, or others: %v", len(content), len(got), err)
	}
	r := opens.must(t, http.StatusOK, http.MethodGet, path+"?path="+url.QueryEscape(dir), nil)
	if got, want := r.header.Get("Content-Disposition"), fmt.Sprintf("attachment; filename=%s.tar", filepath.Base(dir)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	archive, names := tar.NewReader(strings.NewReader(r.body)), []string{}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if got, err := io.ReadAll(archive); err != nil || h.Typeflag == tar.TypeReg && string(got) != content {
			t.Errorf("%s has other bytes: %v", h.Name, err)
		}
	}
	if want := []string{filepath.Base(dir) + "/", filepath.Base(dir) + "/a ü'$(id).bin"}; fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", names, want)
	}
	r = opens.must(t, http.StatusUnprocessableEntity, http.MethodPost, to+"/none", small, smallType)
	if !strings.Contains(r.body, "No such file or directory") {
		t.Errorf("tar's own words are missing: %s", r.body)
	}
	opens.must(t, http.StatusUnprocessableEntity, http.MethodGet, path+"?path=/no/such/file", nil)
	opens.must(t, http.StatusNotFound, http.MethodGet, strings.Replace(path, "/pods/", "/pods/no-", 1)+"?path=/etc/hostname", nil)
}
