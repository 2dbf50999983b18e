package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/tools/port"
)

// s3Server is versitygw, with a bucket in a folder.
type s3Server struct {
	program, folder, address, authority string
	args                                []string
	running                             *program
}

const s3Secret = "canary-of-the-bucket"

func newS3Server(t *testing.T) *s3Server {
	t.Helper()
	dir := t.TempDir()
	s := &s3Server{program: filepath.Join(dir, "versitygw"), folder: filepath.Join(dir, "files"), authority: filepath.Join(dir, "ca.pem")}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", s.program, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = "../versitygw"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build versitygw: %v: %s", err, out)
	}
	p, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	s.address = fmt.Sprintf("localhost:%d", p)
	certificate, authority := certificateOf(t, "localhost")
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	key, sidecar := filepath.Join(dir, "key.pem"), filepath.Join(dir, "metadata")
	err = errors.Join(err, os.WriteFile(s.authority, authority, 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
		os.MkdirAll(filepath.Join(s.folder, "uploads"), 0o755), os.MkdirAll(sidecar, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--port", fmt.Sprintf("127.0.0.1:%d", p), "--access", "store", "--secret", s3Secret, "--cert", s.authority, "--key", key,
		"posix", "--sidecar", sidecar, s.folder}
	s.start(t)
	return s
}

func (s *s3Server) start(t *testing.T) {
	t.Helper()
	s.running = launch(t, filepath.Join(t.TempDir(), "versitygw.log"), s.program, s.args...)
	eventually(t, "the S3 server listens", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// object returns the file that an object of the bucket is.
func (s *s3Server) object(name string) string { return filepath.Join(s.folder, "uploads", name) }

// configuration writes a configuration of the product whose files are in the bucket.
func (s *s3Server) configuration(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubesphere.yaml")
	text, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	text = fmt.Appendf(text, "s3:\n  {endpoint: 'https://%s', accessKeyID: store, secretAccessKey: %s, certificateAuthority: %s%s}\n",
		s.address, s3Secret, s.authority, more)
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

// X36: packages that no ConfigMap holds, and images, are in a bucket of a real S3 server; what is in ConfigMaps stays there and is served; a server that is
// away harms neither; and an installation that goes back to ConfigMaps reads what is in the bucket.
func TestX36FilesOfTheStoreAreInABucket(t *testing.T) {
	s, ws := newS3Server(t), newWorkspace(t)
	author := newStoreMember(t, ws)
	own, images := storeAPI+"/workspaces/"+ws+"/apps", storeAPI+"/workspaces/"+ws+"/attachments"
	upload := func(t *testing.T, who caller, file []byte) (app, version string) {
		t.Helper()
		body, header := storeForm(t, file, obj{})
		made := decode[struct{ AppID, VersionID string }](t, who.must(t, http.StatusOK, http.MethodPost, own, body, header).body)
		return made.AppID, made.VersionID
	}
	content := func(t *testing.T, who caller, app, version string) []byte {
		t.Helper()
		path := own + "/" + app + "/versions/" + version + "/package"
		eventually(t, version+" is served", who.is(http.StatusOK, http.MethodGet, path))
		return decode[struct{ Package []byte }](t, who.must(t, http.StatusOK, http.MethodGet, path, nil).body).Package
	}
	small := storeChart(t, unique("small"), "1.0.0")
	smallApp, smallVersion := upload(t, author, small)

	log := &bytes.Buffer{}
	replica, err := product.LoggedReplica(t.Context(), log, "--config", s.configuration(t, ""), "-v=4")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	there := author
	there.base = replica.URL
	name, raw := unique("large"), make([]byte, 3<<20)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	large := charttest.Pack(t, name, map[string]string{"Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n", "data": hex.EncodeToString(raw)})

	var app, version string
	step(t, "a package that no ConfigMap holds is in the bucket, and served from it", func(t *testing.T) {
		app, version = upload(t, there, large)
		if got := content(t, there, app, version); !bytes.Equal(got, large) {
			t.Errorf("%d bytes came back of %d", len(got), len(large))
		}
		if got, err := os.ReadFile(s.object(version)); err != nil || !bytes.Equal(got, large) {
			t.Errorf("the bucket has %d bytes of %d: %v", len(got), len(large), err)
		}
		if _, err := kubeClient(t).RESTClient().Get().AbsPath(storeFile + "/" + version).DoRaw(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("a ConfigMap of the package: %v", err)
		}
	})
	step(t, "what is in a ConfigMap is served", func(t *testing.T) {
		if got := content(t, there, smallApp, smallVersion); !bytes.Equal(got, small) {
			t.Error("what is in a ConfigMap is another one")
		}
	})

	image, header := storeForm(t, []byte("\x89PNG\r\n\x1a\n0000"), obj{})
	attach := func(t *testing.T) string {
		t.Helper()
		return decode[struct {
			ID string `json:"attachment_id"`
		}](t, there.must(t, http.StatusOK, http.MethodPost, images, image, header).body).ID
	}
	var id, deleted string
	step(t, "an image is uploaded and served", func(t *testing.T) {
		id, deleted = attach(t), attach(t)
		there.must(t, http.StatusOK, http.MethodGet, images+"/"+id, nil)
	})
	newStranger := newStoreMember(t, newWorkspace(t))
	newStranger.base = replica.URL
	eventually(t, "the stranger is known there", newStranger.is(http.StatusOK, http.MethodGet, "/oauth/userinfo"))
	step(t, "an image is not for another workspace", func(t *testing.T) {
		newStranger.must(t, http.StatusForbidden, http.MethodGet, images+"/"+id, nil)
	})
	step(t, "an image that is deleted is in the bucket no more", func(t *testing.T) {
		there.must(t, http.StatusOK, http.MethodDelete, images+"/"+deleted, nil)
		if _, err := os.Stat(s.object(deleted)); !os.IsNotExist(err) {
			t.Errorf("a deleted image is in the bucket: %v", err)
		}
	})
	whole := t
	step(t, "a server that is away is said to be, and nothing is lost", func(t *testing.T) {
		s.running.kill()
		path := own + "/" + app + "/versions/" + version + "/package"
		if r := there.must(t, http.StatusBadGateway, http.MethodGet, path, nil); !strings.Contains(r.body, "S3 server") || strings.Contains(r.body, s3Secret) {
			t.Errorf("%s", clip(r.body))
		}
		there.must(t, http.StatusBadGateway, http.MethodPost, images, image, header)
		body, header := storeForm(t, storeChart(t, unique("none"), "1.0.0"), obj{})
		there.must(t, http.StatusBadGateway, http.MethodPost, own, body, header)
		if got := content(t, there, smallApp, smallVersion); !bytes.Equal(got, small) {
			t.Error("what is in a ConfigMap is another one")
		}
		s.start(whole) // which ends with the test
		eventually(t, "it is there again", there.is(http.StatusOK, http.MethodGet, path))
	})

	step(t, "an installation goes back to ConfigMaps", func(t *testing.T) {
		replica, err := product.LoggedReplica(t.Context(), os.Stderr, "--config", s.configuration(t, ", newFiles: false"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = replica.Stop() })
		back := author
		back.base = replica.URL
		if got := content(t, back, app, version); !bytes.Equal(got, large) {
			t.Error("the package in the bucket is another one")
		}
		_, again := upload(t, back, storeChart(t, unique("again"), "1.0.0"))
		stored(t, storeFile+"/"+again)
		if _, err := os.Stat(s.object(again)); !os.IsNotExist(err) {
			t.Errorf("a new package is in the bucket: %v", err)
		}
	})

	step(t, "the programs say nothing of the key", func(t *testing.T) {
		if err := replica.Stop(); err != nil {
			t.Error(err)
		}
		text := log.String()
		if strings.Contains(text, s3Secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(s3Secret))) || !strings.Contains(text, "uploads") {
			t.Errorf("the log of ks-apiserver: %s", clip(text))
		}
	})
	step(t, "an application whose package is in the bucket can be deleted", func(t *testing.T) {
		eventually(t, "the author's applications can be deleted", func(ctx context.Context) error {
			r, err := author.do(ctx, http.MethodDelete, own+"/"+app, nil)
			if err == nil && r.code != http.StatusOK && r.code != http.StatusNotFound {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	})
}
