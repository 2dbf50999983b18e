package terminal_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// machine runs commands on this machine, as a container would.
func machine(r *http.Request, s terminal.Streams) error {
	argv := r.URL.Query()["command"]
	cmd := exec.CommandContext(r.Context(), argv[0], argv[1:]...) //nolint:gosec // what is tested
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &terminal.ExitError{Code: exit.ExitCode()}
	}
	return err
}

// files returns routes that transfer files, of limit bytes at most.
func files(limit int64, by executor) *kapisterminal.V1alpha2 {
	return &kapisterminal.V1alpha2{Files: true, UploadLimit: limit, Executor: by,
		Uploads: terminal.NewLimiter(terminal.Limits{PerUser: 10, Total: 10, Openings: 1000, Window: time.Second, Of: "uploads"}, time.Now),
		Downloads: terminal.NewLimiter(terminal.Limits{PerUser: 10, Total: 10, Openings: 1000, Window: time.Second, Of: "downloads"},
			time.Now)}
}

var pods = schema.GroupResource{Resource: "pods"}

const boundary = "the-boundary"

// formOf returns a form whose parts have these headers and contents, in turn.
func formOf(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"file\"%s\r\n\r\n%s\r\n", boundary, parts[i], parts[i+1])
	}
	return b.String() + "--" + boundary + "--\r\n"
}

// named returns the header of a file's name.
func named(name string) string { return `; filename="` + name + `"` }

// ask sends a request, and returns the answer with its body; a body that was cut off ends with "(cut off)".
func ask(t *testing.T, method, address string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if body != nil {
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		said = append(said, "(cut off)"...)
	}
	return res, string(said)
}

// attachmentOf returns the name of the file that a browser stores the answer in.
func attachmentOf(t *testing.T, res *http.Response) string {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(res.Header.Get("Content-Disposition"))
	if err != nil || kind != "attachment" {
		t.Errorf("%s: %v", res.Header.Get("Content-Disposition"), err)
	}
	return parameters["filename"]
}

func at(srv, query string) string { return srv + path + "/file?" + query }

func in(dir string) string { return "path=" + url.QueryEscape(dir) }

func read(t *testing.T, file ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(file...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFilesAreThoseThatWereSent(t *testing.T) { // O7
	dir := t.TempDir()
	srv := serve(t, files(1<<20, machine), nil)
	long := strings.Repeat("ä", 127) + "x" // 255 bytes
	all := map[string]string{"plain.txt": "line\r\n--" + boundary[:5] + "\r\n", "empty": "", "-rf": "a name that looks like options", long: "\x00\xff",
		"$(id) `id` ;\"'": "quotes"}
	var parts []string
	for name, content := range all {
		parts = append(parts, named(strings.ReplaceAll(name, `"`, `\"`)), content)
	}
	parts = append(parts, "", "a field, and no file", named("/etc/absolute"), "by its last element", named("../up"), "too")
	all["absolute"], all["up"] = "by its last element", "too"
	form := formOf(parts...)
	for way, body := range map[string]io.Reader{"Length": strings.NewReader(form), "Chunked": io.MultiReader(strings.NewReader(form))} {
		t.Run(way, func(t *testing.T) {
			to := filepath.Join(dir, way+" of it")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			res, said := ask(t, http.MethodPost, at(srv.URL, in(to)), body)
			var answer struct {
				Path  string
				Files []terminal.File
			}
			if err := json.Unmarshal([]byte(said), &answer); err != nil || res.StatusCode != http.StatusOK || answer.Path != to || len(answer.Files) != len(all) {
				t.Fatalf("%d %s %v", res.StatusCode, said, err)
			}
			for _, f := range answer.Files {
				if got, want := read(t, to, f.Name), all[f.Name]; got != want || f.SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(want))) {
					t.Errorf("%q is %q, want %q; %+v", f.Name, got, want, f)
				}
			}
		})
	}
	for name, content := range all {
		res, said := ask(t, http.MethodGet, at(srv.URL, in(filepath.Join(dir, "Length of it", name))), nil)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/x-tar" {
			t.Fatalf("%q: %d %s", name, res.StatusCode, said)
		}
		if got, want := attachmentOf(t, res), name+".tar"; got != want {
			t.Errorf("the attachment is %q, want %q", got, want)
		}
		archive := tar.NewReader(strings.NewReader(said))
		h, err := archive.Next()
		if err != nil || h.Name != name {
			t.Fatalf("%q: %+v %v", name, h, err)
		}
		if got, err := io.ReadAll(archive); err != nil || string(got) != content {
			t.Errorf("%q has %q, want %q; %v", name, got, content, err)
		}
	}
}

func TestWhatIsNoUploadChangesNothing(t *testing.T) { // O7
	runs := executor(func(r *http.Request, _ terminal.Streams) error { t.Errorf("%s", r.URL); return nil })
	var many []string
	for i := range 21 {
		many = append(many, named(fmt.Sprint(i)), "x")
	}
	good := formOf(named("a"), "content")
	for name, c := range map[string]struct {
		query string
		body  string
		code  int
		says  string
	}{
		"Relative":        {"path=tmp", good, 400, "has to begin with /"},
		"Up":              {"path=/tmp/../etc", good, 400, "no name of a file"},
		"UpAtTheEnd":      {"path=/tmp/..", good, 400, "no name of a file"},
		"PathWithNUL":     {"path=/tmp/a%00b", good, 400, "has a byte"},
		"PathNoUTF8":      {"path=/tmp/%ff", good, 400, "has a byte"},
		"LongElement":     {"path=/" + strings.Repeat("a", 256), good, 400, "more than 255 bytes"},
		"LongPath":        {"path=" + strings.Repeat("/a", 2048), good, 400, "4095 bytes at most"},
		"BadContainer":    {"path=/&container=a%26b", good, 400, "no name of a container"},
		"NameUp":          {"path=/tmp", formOf(named(".."), "x"), 400, "no name of a file"},
		"NameUpAtTheEnd":  {"path=/tmp", formOf(named("a/.."), "x"), 400, "no name of a file"},
		"NameDot":         {"path=/tmp", formOf(named("."), "x"), 400, "no name of a file"},
		"NoName":          {"path=/tmp", formOf(named(""), "x"), 400, "no name of a file"},
		"NameOfAFolder":   {"path=/tmp", formOf(named("a/"), "x"), 400, "no name of a file"},
		"NameWithNUL":     {"path=/tmp", formOf(`; filename*=UTF-8''a%00b`, "x"), 400, "has a byte"},
		"NameNoUTF8":      {"path=/tmp", formOf(named("a\xff"), "x"), 400, "has a byte"},
		"NameOf256Bytes":  {"path=/tmp", formOf(named(strings.Repeat("a", 256)), "x"), 400, "more than 255 bytes"},
		"SecondIsBad":     {"path=/tmp", formOf(named("a"), "x", named(".."), "x"), 400, "no name of a file"},
		"TooManyFiles":    {"path=/tmp", formOf(many...), 400, "more than 20 files"},
		"NoFile":          {"path=/tmp", formOf("", "x"), 400, "no file"},
		"Nothing":         {"path=/tmp", "", 400, "no file"},
		"NoEnd":           {"path=/tmp", strings.TrimSuffix(good, "\r\n--"+boundary+"--\r\n"), 400, "could not be read"},
		"CutInTheFile":    {"path=/tmp", good[:len(good)-30], 400, "could not be read"},
		"OneByteTooLarge": {"path=/tmp", formOf(named("a"), strings.Repeat("x", 1001)), 413, "1000 bytes"},
		"TogetherTooLarge": {"path=/tmp", formOf(named("a"), strings.Repeat("x", 1000), named("b"), "x"), 413,
			"1000 bytes"},
		"DryRun": {"path=/tmp&dryRun=All", good, 400, "dryRun"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, files(1000, runs), nil)
			for _, body := range []io.Reader{strings.NewReader(c.body), io.MultiReader(strings.NewReader(c.body))} {
				res, said := ask(t, http.MethodPost, at(srv.URL, c.query), body)
				if res.StatusCode != c.code || !strings.Contains(said, c.says) || !strings.Contains(said, `"kind":"Status"`) {
					t.Errorf("%d %.300s, want %d %s", res.StatusCode, said, c.code, c.says)
				}
			}
		})
	}
	srv := serve(t, files(1000, runs), nil)
	field := io.MultiReader(strings.NewReader(formOf("", strings.Repeat("x", 1<<20+1000), named("a"), "x"))) // of no declared length
	if res, said := ask(t, http.MethodPost, at(srv.URL, "path=/tmp"), field); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", res.StatusCode, said)
	}
	res, said := ask(t, http.MethodPost, at(srv.URL, "path=/tmp"), strings.NewReader("{}"), "Content-Type: application/json")
	if res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", res.StatusCode, said)
	}
	for query, says := range map[string]string{"path=/": "below /", "path=//.": "below /", "": "has to begin with /", "path=/a/../b": "no name of a file",
		"path=a": "has to begin with /", "path=/a%00": "has a byte"} {
		if res, said := ask(t, http.MethodGet, at(srv.URL, query), nil); res.StatusCode != http.StatusBadRequest || !strings.Contains(said, says) {
			t.Errorf("%s: %d %s", query, res.StatusCode, said)
		}
	}
}

func TestTheLimitOfAnUploadIsExact(t *testing.T) { // O7
	dir := t.TempDir()
	srv := serve(t, files(1000, machine), nil)
	body := formOf(named("a"), strings.Repeat("x", 400), named("b"), strings.Repeat("y", 600))
	if res, said := ask(t, http.MethodPost, at(srv.URL, in(dir)), strings.NewReader(body)); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, said)
	}
	if got := read(t, dir, "b"); len(got) != 600 {
		t.Errorf("it has %d bytes", len(got))
	}
}

// A file replaces a link of its name, and is not written through it. The folder itself may be a link: the caller has named it.
func TestAnUploadFollowsNoLinkOfItsName(t *testing.T) { // O7
	dir := t.TempDir()
	outside, target, alias := filepath.Join(dir, "outside"), filepath.Join(dir, "target"), filepath.Join(dir, "alias")
	for _, err := range []error{
		os.WriteFile(outside, []byte("as it was"), 0o600), os.Mkdir(target, 0o700), os.Symlink(target, alias), os.Symlink(outside, filepath.Join(target, "a")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	srv := serve(t, files(1000, machine), nil)
	res, said := ask(t, http.MethodPost, at(srv.URL, in(alias)), strings.NewReader(formOf(named("a"), "new")))
	if res.StatusCode != http.StatusOK || read(t, outside) != "as it was" || read(t, target, "a") != "new" {
		t.Errorf("%d %s: outside is %q, the file %q", res.StatusCode, said, read(t, outside), read(t, target, "a"))
	}
}

func TestWhatTarRefusesIsTold(t *testing.T) { // O7
	missing := apierrors.NewInternalError(errors.New(`exec: "tar": executable file not found in $PATH`))
	noise := executor(func(_ *http.Request, s terminal.Streams) error {
		for range 100 {
			_, _ = s.Stderr.Write(bytes.Repeat([]byte("n\xff"), 1000))
		}
		return &terminal.ExitError{Code: 2}
	})
	fails := func(err error) executor { return func(*http.Request, terminal.Streams) error { return err } }
	for name, c := range map[string]struct {
		by   executor
		code int
		says string
	}{
		"NoSuchFolder":    {machine, 422, "No such file or directory"},
		"MuchToSay":       {noise, 422, "nn\ufffd"[1:]},
		"NoTar":           {fails(missing), 422, "it has no tar"},
		"NoTarByItsCode":  {fails(&terminal.ExitError{Code: 127}), 422, "no tar that could be run"},
		"NoContainer":     {fails(apierrors.NewInternalError(errors.New(`container not found ("web")`))), 422, "no such container"},
		"NoPod":           {fails(apierrors.NewNotFound(pods, "p")), 404, "not found"},
		"RefusedNatively": {fails(apierrors.NewForbidden(pods, "p", errors.New("no"))), 403, "forbidden"},
		"NoWayThrough":    {fails(terminal.ErrNoUpgrade), 502, "could not be upgraded"},
		"Lost":            {fails(errors.New("read tcp 10.0.0.1: reset")), 502, "connection to the container was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, files(1000, c.by), nil)
			for method, body := range map[string]io.Reader{http.MethodPost: strings.NewReader(formOf(named("a"), "x")), http.MethodGet: nil} {
				res, said := ask(t, method, at(srv.URL, in(filepath.Join(t.TempDir(), "none", "none"))), body)
				if res.StatusCode != c.code || !strings.Contains(said, c.says) || strings.Contains(said, "10.0.0.1") || len(said) > 16<<10 {
					t.Errorf("%s: %d %.500s", method, res.StatusCode, said)
				}
				if res.Header.Get("Content-Disposition") != "" {
					t.Errorf("%s: the refusal is an attachment", method)
				}
			}
		})
	}
}

// A tar that finds no file writes the end of an archive all the same, and then fails.
func TestAMissingFileIsNoArchive(t *testing.T) { // O7
	srv := serve(t, files(1000, machine), nil)
	res, said := ask(t, http.MethodGet, at(srv.URL, in(filepath.Join(t.TempDir(), "none"))), nil)
	if res.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(said, "No such file or directory") {
		t.Errorf("got %d %.200s, want 422 with the words of tar", res.StatusCode, said)
	}
}

// A transfer ends with the right to it and with its time, whether or not the container notices.
func TestATransferEndsWithTheRight(t *testing.T) { // O5, O7
	revoked := stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error {
		return apierrors.NewForbidden(pods, "p", errors.New("no more"))
	}}
	for name, c := range map[string]struct {
		options stream.Options
		max     time.Duration
		code    int
	}{
		"Right": {revoked, 0, http.StatusUnauthorized},
		"Time":  {stream.Options{}, 10 * time.Millisecond, http.StatusRequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			waits := func(begun string) executor {
				return func(r *http.Request, s terminal.Streams) error {
					if begun != "" {
						_, _ = s.Stdout.Write([]byte(begun))
					}
					<-r.Context().Done()
					return r.Context().Err()
				}
			}
			h := files(1000, waits(""))
			h.Streams, h.Max = stream.New(c.options), c.max
			srv := serve(t, h, nil)
			for method, body := range map[string]io.Reader{http.MethodPost: strings.NewReader(formOf(named("a"), "x")), http.MethodGet: nil} {
				if res, said := ask(t, method, at(srv.URL, "path=/a"), body); res.StatusCode != c.code {
					t.Errorf("%s: %d %s, want %d", method, res.StatusCode, said, c.code)
				}
			}
			h = files(1000, waits(strings.Repeat("begun", 20<<10)))
			h.Streams, h.Max = stream.New(c.options), c.max
			if res, said := ask(t, http.MethodGet, at(serve(t, h, nil).URL, "path=/a"), nil); !strings.HasSuffix(said, "(cut off)") {
				t.Errorf("%d, %d bytes in good order", res.StatusCode, len(said))
			}
		})
	}
}

// archiveOf returns an archive of one file of that size.
func archiveOf(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Name: "a", Mode: 0o600, Size: int64(size)})
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte("x"), size))
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What fails after the first byte ends the connection: a client must not take a part for the whole. Nor must one whose end is missing,
// although kube-apiserver says that tar has ended well: so it does where it has lost the kubelet.
func TestAPartOfAnArchiveIsNotTheWhole(t *testing.T) { // O7
	zeros, whole := make([]byte, 100<<10), archiveOf(t, 100<<10)
	for name, c := range map[string]struct {
		archive []byte
		err     error
		isWhole bool
	}{
		"Tar":             {zeros, &terminal.ExitError{Code: 2}, false},
		"Pod":             {zeros, errors.New("lost"), false},
		"CutAtABlock":     {whole[:512*100], nil, false},
		"CutInABlock":     {whole[:50_000], nil, false},
		"CutInTheEnd":     {whole[:len(whole)-512], nil, false},
		"CutInALastBlock": {whole[:len(whole)-1], nil, false},
		"Whole":           {whole, nil, true},
		"FilledWithZeros": {append(whole[:len(whole):len(whole)], zeros[:512*7]...), nil, true},
	} {
		srv := serve(t, files(1000, func(_ *http.Request, s terminal.Streams) error {
			for part := range slices.Chunk(c.archive, 700) {
				if _, err := s.Stdout.Write(part); err != nil {
					t.Error(err)
				}
			}
			return c.err
		}), nil)
		res, said := ask(t, http.MethodGet, at(srv.URL, "path=/a"), nil)
		if isWhole := said == string(c.archive); res.StatusCode != http.StatusOK || isWhole != c.isWhole || strings.HasSuffix(said, "(cut off)") == c.isWhole {
			t.Errorf("%s: %d, %d bytes, whole: %v", name, res.StatusCode, len(said), isWhole)
		}
	}
}

// A tar that ends well has read all files; of the end of the archive it may have read a part.
func TestAnUploadThatIsNotReadWholeIsLost(t *testing.T) { // O7
	for name, c := range map[string]struct{ read, code int }{
		"Nothing":           {0, http.StatusBadGateway},
		"AHeader":           {512, http.StatusBadGateway},
		"APartOfAFile":      {512 + 100, http.StatusBadGateway},
		"TheBytesOfTheFile": {512 + 900, http.StatusBadGateway},
		"TheFile":           {512 + 1024, http.StatusOK},
		"AZeroBlock":        {512 + 1024 + 512, http.StatusOK},
		"All":               {512 + 1024 + 1024, http.StatusOK},
	} {
		srv := serve(t, files(1000, func(_ *http.Request, s terminal.Streams) error {
			if _, err := io.ReadFull(s.Stdin, make([]byte, c.read)); err != nil {
				t.Error(err)
			}
			return nil
		}), nil)
		res, said := ask(t, http.MethodPost, at(srv.URL, "path=/a"), strings.NewReader(formOf(named("a"), strings.Repeat("x", 900))))
		if res.StatusCode != c.code {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, said, c.code)
		}
	}
}

func TestWhatIsRefusedTransfersNothing(t *testing.T) { // O1, O4, O7
	runs := executor(func(r *http.Request, _ terminal.Streams) error { t.Errorf("%s", r.URL); return nil })
	no := func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return authz.Decision{}, nil }
	none := terminal.NewLimiter(terminal.Limits{Of: "transfers"}, time.Now)
	foreign := []string{"Origin: https://foreign.example", "Sec-Fetch-Site: cross-site"}
	for name, c := range map[string]struct {
		change  func(*kapisterminal.V1alpha2)
		may     authz.Func
		headers []string
		code    int
		says    string
	}{
		"WithoutTheRight": {nil, no, nil, 403, `cannot create resource \"pods/exec\" in API group \"\" in the namespace \"a\"`},
		"SwitchedOff":     {func(h *kapisterminal.V1alpha2) { h.Files = false }, nil, nil, 403, "terminal.files"},
		"ForeignPage":     {nil, nil, foreign, 403, "another site"},
		"NotListed":       {func(h *kapisterminal.V1alpha2) { h.AllowedOrigins = []string{"https://a.example"} }, nil, foreign[:1], 403, "allowedOrigins"},
		"TooMany":         {func(h *kapisterminal.V1alpha2) { h.Uploads, h.Downloads = none, none }, nil, nil, 429, "transfers open"},
	} {
		t.Run(name, func(t *testing.T) {
			h := files(1000, runs)
			if c.change != nil {
				c.change(h)
			}
			srv := serve(t, h, c.may)
			for method, body := range map[string]io.Reader{http.MethodPost: strings.NewReader(formOf(named("a"), "x")), http.MethodGet: nil} {
				res, said := ask(t, method, at(srv.URL, "path=/a"), body, c.headers...)
				if res.StatusCode != c.code || !strings.Contains(said, c.says) {
					t.Errorf("%s: %d %s", method, res.StatusCode, said)
				}
			}
			if h.Uploads.Open() != 0 || h.Downloads.Open() != 0 {
				t.Error("it is counted")
			}
		})
	}
}

// A transfer is audited and logged by where it went, how long it is and its hash, and by no byte of it.
func TestATransferIsRecordedWithoutItsBytes(t *testing.T) { // O7
	const canary = "canary-of-a-file"
	var log bytes.Buffer
	defer klog.CaptureState().Restore()
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	dir := t.TempDir()
	h := files(1000, machine)
	h.Authorizer = authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), nil
	})
	h.Streams = stream.New(stream.Options{})
	c := kapistest.Container(h.WebService())
	recorded := func(method string, query string, body io.Reader) (code int, event, answer string) {
		r := httptest.NewRequestWithContext(t.Context(), method, at("", query), body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		var e audit.Event
		ctx := request.WithUser(request.WithInfo(context.WithValue(r.Context(), audit.Key{}, &e), info), &user.DefaultInfo{Name: "bob"})
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r.WithContext(ctx))
		return w.Code, string(audit.AppendJSON(nil, &e)), w.Body.String()
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(canary)))
	code, event, answer := recorded(http.MethodPost, in(dir), strings.NewReader(formOf(named("a"), canary)))
	for _, want := range []string{`"terminal.kapis.dev/path":"` + dir + `"`, `"terminal.kapis.dev/bytes":"16"`,
		`"terminal.kapis.dev/file-1":"sha256:` + sum + ` a"`} {
		if code != http.StatusOK || !strings.Contains(event, want) {
			t.Errorf("%d %s: the event is %s, want %s", code, answer, event, want)
		}
	}
	all := event
	code, event, answer = recorded(http.MethodGet, in(dir+"/a"), nil)
	for _, want := range []string{`"terminal.kapis.dev/path":"` + dir + `/a"`, fmt.Sprintf(`"terminal.kapis.dev/bytes":"%d"`, len(answer)),
		fmt.Sprintf(`"terminal.kapis.dev/sha256":"%x"`, sha256.Sum256([]byte(answer)))} {
		if code != http.StatusOK || !strings.Contains(event, want) || !strings.Contains(answer, canary) {
			t.Errorf("%d: the event is %s, want %s", code, event, want)
		}
	}
	klog.Flush()
	if said := log.String(); strings.Contains(said+all+event, canary) || strings.Count(said, `user="bob"`) != 2 || !strings.Contains(said, `path="`+dir+`/a"`) {
		t.Errorf("%s%s%s", said, all, event)
	}
}
