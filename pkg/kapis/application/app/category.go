package app

import (
	"maps"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// maxCategory bounds the body of a category.
	maxCategory = 1 << 20
	// maxIcon bounds the icon of an application or a category: an image of 512 KiB, which pages allow, as a data URL. Such an object is well
	// below the 1.5 MiB that etcd takes.
	maxIcon = 704 << 10
	// maxChartIcon bounds the icon that a chart brings, which each of its versions has.
	maxChartIcon = 128 << 10
)

// categories serves the categories of applications.
type categories struct{ store *scope.Store }

func (h *categories) routes(ws *restful.WebService) {
	category := ws.PathParameter("category", "name of the category")
	ws.Route(scope.Listing(ws, ws.GET("/categories").To(web.Handle(h.list)).Operation("listAppCategories").
		Doc("Categories of applications: filtered, sorted, one page")))
	for _, b := range []*restful.RouteBuilder{
		ws.POST("/categories").Consumes(restful.MIME_JSON).To(web.Handle(h.createCategory)).Operation("createAppCategory").
			Doc("Create a category").Reads(v2.Category{}).Writes(v2.Category{}),
		ws.GET("/categories/{category}").To(web.Handle(h.category)).Operation("getAppCategory").
			Doc("One category").Writes(v2.Category{}).Param(category),
		ws.POST("/categories/{category}").Consumes(restful.MIME_JSON).To(web.Handle(h.changeCategory)).Operation("updateAppCategory").
			Doc("Change a category").Reads(v2.Category{}).Writes(v2.Category{}).Param(category),
		ws.PATCH("/categories/{category}").Consumes(restful.MIME_JSON, mergePatch).To(web.Handle(h.changeCategory)).
			Operation("patchAppCategory").Doc("Change a category").Reads(v2.Category{}).Writes(v2.Category{}).Param(category),
		ws.DELETE("/categories/{category}").To(web.Handle(h.deleteCategory)).Operation("deleteAppCategory").
			Doc("Delete a category without applications").Param(category),
	} {
		ws.Route(b)
	}
}

func (h *categories) list(r *restful.Request) (any, error) {
	return scope.Categories.List(h.store, r, nil)
}

func (h *categories) category(r *restful.Request) (any, error) {
	return scope.Categories.Get(h.store, r, r.PathParameter("category"))
}

// categoryRequest is what a category is made of. A nil member stays as it is.
type categoryRequest struct {
	Metadata struct {
		Name         string            `json:"name"`
		GenerateName string            `json:"generateName"`
		Annotations  map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec *v2.CategorySpec `json:"spec"`
}

// readCategory reads the body of a write: nothing of it but names, what people read, and the icon is taken.
func readCategory(r *restful.Request) (*categoryRequest, error) {
	raw, err := web.ReadBody(r.Request, maxCategory)
	if err != nil {
		return nil, err
	}
	c := &categoryRequest{}
	if err := decode(raw, c); err != nil {
		return nil, err
	}
	if c.Spec != nil && len(c.Spec.Icon) > maxIcon {
		return nil, invalidf("spec.icon has more than %d KiB", maxIcon>>10)
	}
	shown := map[string]string{}
	for _, key := range []string{annotationAlias, annotationDescription} {
		if v, ok := c.Metadata.Annotations[key]; ok {
			if len(v) > maxText {
				return nil, invalidf("metadata.annotations: %s has more than %d bytes", key, maxText)
			}
			shown[key] = v
		}
	}
	c.Metadata.Annotations = shown
	return c, nil
}

func (h *categories) createCategory(r *restful.Request) (any, error) {
	c, err := readCategory(r)
	if err != nil {
		return nil, err
	}
	o := &v2.Category{ObjectMeta: metav1.ObjectMeta{Name: c.Metadata.Name, GenerateName: c.Metadata.GenerateName,
		Annotations: c.Metadata.Annotations}}
	if o.Name == "" && o.GenerateName == "" {
		return nil, status.BadRequestf("metadata.name is missing: want the name of the category, such as databases")
	}
	if c.Spec != nil {
		o.Spec = *c.Spec
	}
	return scope.Categories.Create(h.store, r, o)
}

func (h *categories) changeCategory(r *restful.Request) (any, error) {
	c, err := readCategory(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("category")
	if c.Metadata.Name != "" && c.Metadata.Name != name {
		return nil, status.BadRequestf("metadata.name is %.253q, and the path names %.253q", c.Metadata.Name, name)
	}
	return scope.Categories.Change(h.store, r, name, func(o *v2.Category) error {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		maps.Copy(o.Annotations, c.Metadata.Annotations)
		if c.Spec != nil {
			o.Spec = *c.Spec
		}
		return nil
	})
}

func (h *categories) deleteCategory(r *restful.Request) (any, error) {
	name := r.PathParameter("category")
	if name == v2.CategoryUncategorized {
		return nil, status.BadRequestf("%s is the category of applications without one, and is not deleted", name)
	}
	in, err := scope.Apps.All(r.Request.Context(), h.store, v2.LabelCategory, name)
	if err != nil {
		return nil, err
	}
	if n := len(in); n > 0 {
		return nil, status.About(scope.Categories.Resource(), name,
			status.Errorf(http.StatusConflict, "the category %s has %d applications: give them another one first", name, n))
	}
	return success, scope.Categories.Delete(h.store, r, name, nil)
}
