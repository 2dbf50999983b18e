package terminal

import (
	"net/url"
	"path"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/status"
)

// UploadQuery returns the query of a request to exec that unpacks an archive into a folder. There is no shell: p is one argument.
func UploadQuery(container, p string) url.Values {
	return fileQuery(container, []string{"tar", "-xmf", "-", "-C", p}, "stdin")
}

// DownloadQuery returns the query of a request to exec that packs the file or folder p, and its name. The folder / has none.
func DownloadQuery(container, p string) (query url.Values, base string, err error) {
	p = path.Clean(p)
	if p == "/" {
		return nil, "", status.BadRequestf("the parameter path names no file or folder below /")
	}
	dir, base := path.Split(p)
	return fileQuery(container, []string{"tar", "-cf", "-", "-C", dir, "--", base}, "stdout"), base, nil
}

func fileQuery(container string, argv []string, stream string) url.Values {
	q := url.Values{"command": argv}
	if container != "" {
		q.Set("container", container)
	}
	for _, on := range []string{stream, "stderr"} {
		q.Set(on, strconv.FormatBool(true))
	}
	return q
}
