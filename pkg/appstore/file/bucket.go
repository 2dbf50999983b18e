package file

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// MaxInBucket is how large a file in a bucket may be, in bytes: as large as a chart.
	MaxInBucket = chart.MaxArchive
	// timeout bounds what is done with one file, tries how often that is tried, and headerTimeout how long an answer is waited for.
	timeout, headerTimeout = 30 * time.Second, 10 * time.Second
	tries                  = 2
	// metadata is the header that has the labels of a file, as a query.
	metadata = "Kapis-Labels"
	// maxUnnamed is how many files Bucket.Names returns at most.
	maxUnnamed = 10_000

	reading = "read"
)

// BucketOptions say where a bucket is, and with which keys it is read and written.
type BucketOptions struct {
	// Host is the server with its port, reached by TLS unless it is Plain; "" for no bucket.
	Host  string
	Plain bool
	// Region is what requests are signed for, and Name the bucket: in the path of a URL, or with HostStyle in the name of its host.
	Region, Name string
	HostStyle    bool
	// KeyID and Key sign requests, with Token where they are temporary.
	KeyID, Key, Token string
	// AuthorityFile is a PEM file of the authorities of the server's certificate; "" for those of the machine.
	AuthorityFile string
}

// Bucket keeps each file as an object of a bucket, under the name of the file.
type Bucket struct {
	client minio.Core
	host   string
	name   string
}

var _ Store = (*Bucket)(nil)

// NewBucket returns a Store whose files are in a bucket. It connects to nothing.
func NewBucket(o BucketOptions) (*Bucket, error) {
	network := egress.Options{AllowLoopback: true, HeaderTimeout: headerTimeout} // the administrator names the server, and no user
	if o.AuthorityFile != "" {
		pem, err := os.ReadFile(o.AuthorityFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of the S3 server: %w", err)
		}
		network.RootCAs = x509.NewCertPool()
		if !network.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authorities of the S3 server: %s has no certificate in PEM", o.AuthorityFile)
		}
	}
	lookup := minio.BucketLookupPath
	if o.HostStyle {
		lookup = minio.BucketLookupDNS
	}
	client, err := minio.NewCore(o.Host, &minio.Options{Creds: credentials.NewStaticV4(o.KeyID, o.Key, o.Token), Secure: !o.Plain,
		Transport: egress.NewTransport(network), Region: o.Region, BucketLookup: lookup, MaxRetries: tries})
	if err != nil {
		return nil, fmt.Errorf("the address of the S3 server can't be used: %w", err)
	}
	return &Bucket{client: *client, host: o.Host, name: o.Name}, nil
}

// MaxSize implements Store.
func (b *Bucket) MaxSize() int { return MaxInBucket }

// Get implements Store.
func (b *Bucket) Get(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, _, _, err := b.client.GetObject(ctx, b.name, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, b.failure(reading, name, err)
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, MaxInBucket+1))
	switch {
	case err != nil:
		return nil, b.failure(reading, name, err)
	case len(content) > MaxInBucket:
		return nil, tooLarge(MaxInBucket)
	}
	return content, nil
}

// Put implements Store.
func (b *Bucket) Put(ctx context.Context, name string, labels map[string]string, content []byte) error {
	if len(content) > MaxInBucket {
		return tooLarge(MaxInBucket)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	query := url.Values{}
	for k, v := range labels {
		query.Set(k, v)
	}
	_, err := b.client.Client.PutObject(ctx, b.name, name, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
		ContentType: "application/octet-stream", UserMetadata: map[string]string{metadata: query.Encode()}, DisableMultipart: true})
	if err != nil {
		return b.failure("write", name, err)
	}
	return nil
}

// Delete implements Store.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := b.client.RemoveObject(ctx, b.name, name, minio.RemoveObjectOptions{})
	if err != nil && !isMissing(err) {
		return b.failure("delete", name, err)
	}
	return nil
}

// Labels implements Store. A file that another program has kept has none.
func (b *Bucket) Labels(ctx context.Context, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	is, err := b.client.StatObject(ctx, b.name, name, minio.StatObjectOptions{})
	if err != nil {
		return nil, b.failure(reading, name, err)
	}
	query, err := url.ParseQuery(is.UserMetadata[metadata])
	if err != nil {
		return nil, status.Errorf(http.StatusBadGateway, "the file %s says in a way that can't be read whose it is", name)
	}
	out := map[string]string{}
	for k := range query {
		out[k] = query.Get(k)
	}
	return out, nil
}

// Names returns the names of files that are there since before a time, and that wanted wants.
func (b *Bucket) Names(ctx context.Context, before time.Time, wanted func(name string) bool) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*timeout)
	defer cancel()
	var out []string
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{}) {
		if o.Err != nil {
			return nil, b.failure("list", "", o.Err)
		}
		if o.LastModified.Before(before) && wanted(o.Key) {
			if out = append(out, o.Key); len(out) == maxUnnamed {
				break
			}
		}
	}
	return out, nil
}

// isMissing reports whether an answer says that there is no such object.
func isMissing(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }

// failure says in our words why a file can't be read or written: what a server answers is for nobody.
func (b *Bucket) failure(what, name string, err error) error {
	answer := minio.ToErrorResponse(err)
	if answer.Code == minio.NoSuchKey && what == reading {
		return notFound(name)
	}
	if with := (*url.Error)(nil); errors.As(err, &with) {
		err = with.Err
	}
	why := "it can't be reached"
	switch answer.Code {
	case minio.NoSuchBucket:
		why = "it has no such bucket: s3.bucket"
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken":
		why = "it refuses the keys: s3.accessKeyID, s3.secretAccessKey"
	default:
		if answer.StatusCode != 0 {
			why = fmt.Sprintf("it answers %d", answer.StatusCode)
		}
	}
	klog.V(2).InfoS("the files of the application store can't be used", "operation", what, "file", name, "server", b.host, "bucket", b.name,
		"code", answer.Code, "status", answer.StatusCode, "cause", cause(answer, err))
	return status.RetryAfter(5, status.Errorf(http.StatusBadGateway, "%s the file %s: the S3 server of the application store failed: %s",
		what, name, why))
}

// cause returns an error of the network for the log, and nothing of what a server has written.
func cause(answer minio.ErrorResponse, err error) string {
	if answer.StatusCode != 0 {
		return ""
	}
	return err.Error()
}
