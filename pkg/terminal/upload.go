package terminal

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/status"
)

// maxFiles bounds how many files one upload has, and so its event in the audit.
const maxFiles = 20

// formOverhead is how many bytes a form may have besides its files.
const formOverhead = 1 << 20

// File is a file of an upload.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Upload is the files of a form. A form says how long a file is only by its end, and an archive by its beginning: so the files are in a
// temporary file first, which has no name and takes no memory. Nothing of a form that is refused reaches a container.
type Upload struct {
	Files []File
	spool *os.File
}

// ReadUpload reads the files of r's form, which have limit bytes together at most. It ends with r's context. The caller closes the Upload.
func ReadUpload(r *http.Request, limit int64) (*Upload, error) {
	if r.ContentLength > limit+formOverhead {
		return nil, tooLarge(limit)
	}
	r.Body = http.MaxBytesReader(nil, &body{r.Context(), r.Body}, limit+formOverhead)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, status.Errorf(http.StatusUnsupportedMediaType, "the body has to be a form (multipart/form-data): %v", err)
	}
	spool, err := os.CreateTemp("", "ks-upload-*")
	if err == nil {
		err = os.Remove(spool.Name())
	}
	if err != nil {
		return nil, noRoom(err)
	}
	u := &Upload{spool: spool}
	if err := u.read(form, limit); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// Close gives up the temporary file.
func (u *Upload) Close() { _ = u.spool.Close() }

// Bytes returns how many bytes the files have together.
func (u *Upload) Bytes() (n int64) {
	for _, f := range u.Files {
		n += f.Bytes
	}
	return n
}

func (u *Upload) read(form *multipart.Reader, left int64) error {
	limit := left
	for {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF) && len(u.Files) == 0:
			return status.BadRequestf("the form has no file: send one as multipart/form-data, with a file name (RFC 7578, 4.2)")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err, limit)
		}
		name, given, err := fileName(part)
		switch {
		case err != nil:
			return err
		case !given:
			continue // a field; NextPart passes over it, within the bound of the whole form
		case len(u.Files) == maxFiles:
			return status.BadRequestf("the form has more than %d files: send several forms", maxFiles)
		}
		sum := sha256.New()
		n, err := io.Copy(u.spool, io.TeeReader(io.LimitReader(part, left+1), sum))
		var disk *os.PathError
		switch {
		case errors.As(err, &disk):
			return noRoom(err)
		case err != nil:
			return unreadable(err, limit)
		case n > left:
			return tooLarge(limit)
		}
		left -= n
		u.Files = append(u.Files, File{name, n, hex.EncodeToString(sum.Sum(nil))})
	}
}

// fileName returns the name of a file in a form: what follows the last slash. Parts that are no file have none.
func fileName(part *multipart.Part) (name string, given bool, err error) {
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return "", false, status.BadRequestf("a part of the form has no Content-Disposition that can be read: %v", err)
	}
	name, given = parameters["filename"]
	if !given {
		return "", false, nil
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	if err := checkName(name); err != nil {
		return "", false, status.BadRequestf("a file of the form: %v", err)
	}
	return name, true, nil
}

// Send unpacks the files in a container, by the command that r asks for (UploadQuery), and returns when tar has ended. r is as
// Executor.Exec wants it.
func (u *Upload) Send(r *http.Request, by Executor) error {
	archive, out := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := u.pack(out)
		_ = out.CloseWithError(err)
		packed <- err
	}()
	var said messages
	err := by.Exec(r, Streams{Stdin: archive, Stderr: &said})
	_ = archive.CloseWithError(io.ErrClosedPipe)
	packErr := <-packed
	switch {
	case err != nil:
		return tarFailure(err, said.String())
	case errors.Is(packErr, io.ErrClosedPipe): // see Download.Run: a tar that ends well has read all files
		return tarFailure(packErr, "")
	case packErr != nil:
		return fmt.Errorf("pack an upload: %w", packErr)
	}
	return nil
}

// pack writes the files as an archive, whose format every tar reads: long names as GNU tar has them. The error is io.ErrClosedPipe if the
// files were not read to their end; of the end of the archive, a tar may read a part.
func (u *Upload) pack(to io.Writer) error {
	w, at, now := tar.NewWriter(to), int64(0), time.Now().Truncate(time.Second)
	for _, f := range u.Files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: f.Bytes, Mode: 0o644, ModTime: now, Format: tar.FormatGNU}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, io.NewSectionReader(u.spool, at, f.Bytes)); err != nil {
			return err
		}
		at += f.Bytes
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil
}

// body is the body of a request. It ends with the context, between two reads: a read that waits for the client has a limit of its own.
type body struct {
	ctx context.Context //nolint:containedctx // of the request
	io.ReadCloser
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.ReadCloser.Read(p)
}

func tooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the files of an upload may have %d bytes together (terminal.uploadFileLimit)",
		limit))
}

// noRoom returns the answer where the temporary file can't be made or is full. The log says why.
func noRoom(err error) error {
	klog.ErrorS(err, "an upload could not be stored: the folder of temporary files (TMPDIR) has to be writable, and to have room")
	return status.Errorf(http.StatusInsufficientStorage, "this server has no room for the upload: its log says why")
}

func unreadable(err error, limit int64) error {
	var long *http.MaxBytesError
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &long), errors.Is(err, multipart.ErrMessageTooLarge):
		return tooLarge(limit)
	case errors.As(err, &refused): // the body stalled, or the right to the upload has ended
		return err
	}
	return status.BadRequestf("the form could not be read to its end")
}
