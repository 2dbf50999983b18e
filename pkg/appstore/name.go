// Package appstore is what the parts of the application store agree on: how its objects are named, and where the files of applications are.
package appstore

import (
	"crypto/md5"  //nolint:gosec // it shortens names as existing installations do, and proves nothing
	"crypto/sha1" //nolint:gosec // as above
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxShort is how long a name of a chart may be to stay as it is in names of objects, in bytes.
	maxShort = 14
	// hashedShort and hashedVersion are how many digits of a hash stand for a name or a version that can't be in a name.
	hashedShort   = 10
	hashedVersion = 12
	// lengthOfID is how many random letters the id of an attachment has: nobody finds one by trying.
	lengthOfID = 24
)

// ShortName returns what stands for the name of a chart in names of objects: the name in lower case, or a hash of it where it is long or
// is no DNS label. Different names may have one short name, so labels and annotations say which application an object is of.
func ShortName(name string) string {
	if lower := strings.ToLower(name); len(lower) <= maxShort && len(validation.IsDNS1123Label(lower)) == 0 {
		return lower
	}
	sum := md5.Sum([]byte(name)) //nolint:gosec // see the imports
	return hex.EncodeToString(sum[:])[:hashedShort]
}

// NameInRepo returns the name of the Application that a chart in a Repo becomes.
func NameInRepo(repo, chart string) string { return repo + "-" + ShortName(chart) }

// NameOfUpload returns a name for the Application that an uploaded package becomes, another one at each call.
func NameOfUpload(name string) string { return ShortName(name) + "-" + rand.String(5) }

// VersionName returns the name of the ApplicationVersion of a version of an Application.
func VersionName(app, version string) string {
	if len(validation.IsDNS1123Subdomain(version)) == 0 {
		return app + "-" + version
	}
	sum := sha1.Sum([]byte(version)) //nolint:gosec // see the imports
	return app + "-" + hex.EncodeToString(sum[:])[:hashedVersion]
}

// LabelValue returns what names an object in a label, whose values are shorter than names may be: nothing for a name that is too long.
func LabelValue(name string) string {
	if len(name) > validation.LabelValueMaxLength {
		return ""
	}
	return name
}

var isAttachmentID = regexp.MustCompile(`^[a-z0-9]{24}$`).MatchString

// NewAttachmentID returns the id of a new attachment.
func NewAttachmentID() string { return rand.String(lengthOfID) }

// IsAttachmentID reports whether a name may be one that NewAttachmentID has returned. No version of an application has such a name.
func IsAttachmentID(name string) bool { return isAttachmentID(name) }
