package static

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	png = "\x89PNG\r\n\x1a\n"
	svg = `<?xml version="1.0"?><!-- a --><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
)

// world is the routes with a fake cluster. alice may update the theme.
type world struct {
	t        *testing.T
	client   kubernetes.Interface
	settings *setting.Store
	routes   *restful.Container
	now      time.Time
	sent     []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, client: kapistest.ListFirst(fake.NewClientset()), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	w.settings = w.follow()
	may := authz.Func(func(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
		if u.GetName() == "alice" && r.Verb == "update" && r.APIGroup == "config.kubesphere.io" && r.Resource == "configs" && r.Name == "theme" {
			return authz.Allow("", "kapis:global:settings"), nil
		}
		return authz.Decision{}, nil
	})
	w.routes = restful.NewContainer()
	w.routes.Add(
		(&Handler{Settings: w.settings, AsCaller: caller.Client{May: may, Kube: w}, Now: func() time.Time { w.now = w.now.Add(time.Second); return w.now }}).
			WebService(),
	)
	return w
}

// follow starts a replica.
func (w *world) follow() *setting.Store {
	w.t.Helper()
	return kapistest.Settings(w.t, w.client, "kubesphere-system")
}

// RoundTrip is kube-apiserver.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.sent = append(w.sent, authz.DecisionFrom(r.Context()).Group+" "+r.Method)
	var m corev1.ConfigMap
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, err
	}
	maps := w.client.CoreV1().ConfigMaps("kubesphere-system")
	m.ResourceVersion = fmt.Sprint(len(w.sent))
	var out *corev1.ConfigMap
	var err error
	if r.Method == http.MethodPost {
		out, err = maps.Create(r.Context(), &m, metav1.CreateOptions{})
	} else {
		out, err = maps.Update(r.Context(), &m, metav1.UpdateOptions{})
	}
	rec := httptest.NewRecorder()
	web.Write(rec, r, out, err)
	return rec.Result(), nil
}

func (w *world) serve(r *http.Request, who string) *httptest.ResponseRecorder {
	w.t.Helper()
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: who})
	rec := httptest.NewRecorder()
	w.routes.ServeHTTP(rec, r.WithContext(authz.WithDecision(ctx, authz.Allow("", ""))))
	return rec
}

func form(t *testing.T, field, file string, content []byte) (io.Reader, string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	if err := m.WriteField("other", "x"); err != nil {
		t.Fatal(err)
	}
	part, err := m.CreateFormFile(field, file)
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &b, m.FormDataContentType()
}

func (w *world) upload(who, field, file string, content []byte) *httptest.ResponseRecorder {
	w.t.Helper()
	body, typ := form(w.t, field, file, content)
	r := httptest.NewRequest(http.MethodPost, "/static/images", body)
	r.Header.Set("Content-Type", typ)
	return w.serve(r, who)
}

func (w *world) mustUpload(content []byte) string {
	w.t.Helper()
	rec := w.upload("alice", "image", "logo.PNG", content)
	var out uploaded
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil || rec.Code != http.StatusOK {
		w.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return out.Image
}

func (w *world) get(name string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/static/images/"+name, nil)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Set(k, v)
	}
	return w.serve(r, "system:anonymous")
}

// An image of any allowed size is on all replicas, and is what was uploaded.
func TestImagesAreServedAsTheyWereUploaded(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{len(png), 100 << 10, 900 << 10, 900<<10 + 1, setting.MaxImage - 1024} {
		content := append([]byte(png), bytes.Repeat([]byte{byte(size)}, size-len(png))...)
		name := w.mustUpload(content)
		if again := w.mustUpload(content); again != name {
			t.Errorf("the same image has two names: %s, %s", name, again)
		}
		rec := w.get(name)
		h := rec.Header()
		if rec.Code != http.StatusOK || !bytes.Equal(rec.Body.Bytes(), content) || h.Get("Content-Type") != "image/png" ||
			h.Get("Cache-Control") != "public, max-age=86400" ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%d bytes: %d %v", size, rec.Code, h)
		}
		if rec := w.get(name, "If-None-Match: W/\"x\", "+h.Get("ETag")); rec.Code != http.StatusNotModified || rec.Body.Len() != 0 {
			t.Errorf("%d %d bytes", rec.Code, rec.Body.Len())
		}
		other, err := w.follow().Image(name)
		if err != nil || other == nil || other.Size != size {
			t.Errorf("another replica has %+v, %v", other, err)
		}
	}
	for _, sent := range w.sent {
		if !strings.HasPrefix(sent, "kapis:platform:theme ") {
			t.Errorf("written as %s", sent)
		}
	}
}

// S10, S25: a user who may not update the theme can upload nothing, and nothing of the body is read.
func TestUploadsNeedTheRightToTheTheme(t *testing.T) {
	w := newWorld(t)
	body, typ := form(t, "image", "a.png", []byte(png))
	for _, who := range []string{"bob", "system:anonymous"} {
		r := httptest.NewRequest(http.MethodPost, "/static/images", io.MultiReader(unread{t}, body))
		r.Header.Set("Content-Type", typ)
		if rec := w.serve(r, who); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), `"kind":"Status"`) {
			t.Errorf("%s: %d %s", who, rec.Code, rec.Body)
		}
	}
	if len(w.sent) != 0 {
		t.Errorf("written: %q", w.sent)
	}
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// S59: the name and the content must both be of an image, and of the same kind.
func TestOnlyImagesAreTaken(t *testing.T) {
	w := newWorld(t)
	for claim, tc := range map[string]struct {
		field, file, content string
		code                 int
	}{
		"SVG": {"image", "a.svg", svg, 200}, "SVGWithByteOrderMark": {"image", "a.svg", "\ufeff" + svg, 200}, "JPEG": {"image", "a.jpeg", "\xff\xd8\xff\xe0", 200},
		"ICO":       {"image", "a.ico", "\x00\x00\x01\x00", 200},
		"HTMLAsPNG": {"image", "a.png", "<html>", 400}, "HTMLAsSVG": {"image", "a.svg", "<html><svg/></html>", 400},
		"TextBeforeSVG": {"image", "a.svg", "x<svg/>", 400}, "PNGAsSVG": {"image", "a.svg", png, 400}, "SVGAsPNG": {"image", "a.png", svg, 400},
		"OtherExtension": {"image", "a.html", svg, 400}, "NoExtension": {"image", "png", png, 400}, "ExtensionBefore": {"image", "a.png.html", png, 400},
		"Empty":      {"image", "a.png", "", 400},
		"OtherField": {"file", "a.png", png, 400}, "TooLarge": {"image", "a.png", png + strings.Repeat("x", setting.MaxImage), 413},
		"ForeignNamespace": {"image", "a.svg", `<svg xmlns="http://www.w3.org/1999/xhtml"/>`, 400},
	} {
		if rec := w.upload("alice", tc.field, tc.file, []byte(tc.content)); rec.Code != tc.code {
			t.Errorf("%s: %d %s", claim, rec.Code, rec.Body)
		}
	}
	for _, name := range []string{"x", "../../etc", "0123456789abcdef0123456789abcdef.png", "0123456789abcdef0123456789abcdef.html", "<script>"} {
		if rec := w.get(strings.NewReplacer("/", "", "<", "", ">", "").Replace(name)); rec.Code != http.StatusNotFound ||
			!strings.Contains(rec.Body.String(), `"kind":"Status"`) {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// With any number of uploads, there are as many ConfigMaps as there are slots; the images of the theme stay, and of the rest the newest.
func TestImagesAreBoundedAndThoseOfTheThemeStay(t *testing.T) {
	w := newWorld(t)
	var names []string
	upload := func(i int) { names = append(names, w.mustUpload(append([]byte(png), byte(i)))) }
	upload(0)
	w.settings.TookTheme(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: setting.ThemeName}, Data: map[string]string{"logo": "/static/images/" + names[0]}})
	for i := range 2 * setting.ImageSlots {
		upload(i + 1)
	}
	list, err := w.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != setting.ImageSlots {
		t.Errorf("%d ConfigMaps, %v", len(list.Items), err)
	}
	for i, name := range names {
		want := http.StatusNotFound
		if i == 0 || i > len(names)-setting.ImageSlots {
			want = http.StatusOK
		}
		if rec := w.get(name); rec.Code != want {
			t.Errorf("image %d: %d, want %d", i, rec.Code, want)
		}
	}
	// If the theme uses all slots, an upload fails with an error that says so.
	all := map[string]string{}
	for i, name := range names {
		all[fmt.Sprint("k", i)] = name
	}
	w.settings.TookTheme(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: setting.ThemeName}, Data: all})
	if rec := w.upload("alice", "image", "a.png", []byte(png+"new")); rec.Code != http.StatusConflict || !strings.Contains(rec.Body.String(), "theme") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// A slot has an image only if its content is that of its name; ConfigMaps other than the slots have none.
func TestForgedSlotsAreNoImages(t *testing.T) {
	w := newWorld(t)
	name := setting.NameOfImage([]byte(png), "png")
	slot := func(object, image, part, parts, content string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: object},
			Data:       map[string]string{"name": image, "part": part, "parts": parts},
			BinaryData: map[string][]byte{"image": []byte(content)},
		}
	}
	for _, m := range []*corev1.ConfigMap{
		slot("platform-image-00", name, "0", "1", "other"), slot("platform-image-01", "a.html", "0", "1", "<html>"), slot("platform-image-2", name, "0", "1", png),
		slot("platform-image-99", name, "0", "1", png), slot("platform-image-+3", name, "0", "1", png), slot("x", name, "0", "1", png),
		slot("platform-image-04", name, "0", "2", png),
	} {
		w.settings.TookImage(m)
		if rec := w.get(name); rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d", m.Name, rec.Code)
		}
	}
	w.settings.TookImage(slot("platform-image-00", "", "", "", ""))
	w.settings.TookImage(slot("platform-image-04", name, "0", "1", png))
	if rec := w.get(name); rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
