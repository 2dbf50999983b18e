package openapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// loadV2 merges the two documents. Neither is decoded, because kube-apiserver's has several megabytes: our members are inserted into the
// objects of the other; and of two protobuf messages that are written one after the other, every reader makes their union (Protocol
// Buffers, "Last One Wins": embedded messages are merged, repeated fields appended). Where both describe a path, such as /version/,
// kube-apiserver's member stays alone, since a strict reader refuses a document with two members of one name (RFC 7493, 2.3).
func loadV2(up *upstream, current func(context.Context) (*documents, error), f format) func(context.Context, *document) (*document, error) {
	return func(ctx context.Context, before *document) (*document, error) {
		own, err := current(ctx)
		if err != nil {
			return nil, err
		}
		etag := ""
		if before != nil && before.added == own {
			etag = before.upstream
		}
		d, err := up.get(ctx, "/openapi/v2", "", f.mediaType("v2"), etag)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return before, nil
		}
		if f == asJSON {
			d.body, err = splice(d.body, own.v2Members)
			if err != nil {
				return nil, fmt.Errorf("join the OpenAPI documents: %w", err)
			}
		} else {
			part, err := own.protobufWithout(d.body)
			if err != nil {
				return nil, fmt.Errorf("join the OpenAPI documents: %w", err)
			}
			d.body = slices.Concat(d.body, part)
		}
		d.contentType, d.added = f.mediaType("v2"), own
		if before != nil && before.added != own {
			d.modified = time.Time{} // that of kube-apiserver's part is of before the change
		}
		d.etag = `"` + strings.Trim(strings.TrimPrefix(d.upstream, "W/"), `"`) + "-" + own.v2Hash + `"`
		return d, nil
	}
}
