package main

import (
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"text/template"
)

const kubeVersion = "v1.30.0"

// render renders a chart and its dependencies with one set of templates, as Helm does.
func render(each renderCase) (rendered, error) {
	result := rendered{Files: map[string]string{}, Values: map[string]interface{}{}}
	root, err := loadChart(each.Chart, "")
	if err != nil {
		return result, err
	}
	release := map[string]interface{}{
		"Name": each.Release, "Namespace": each.Namespace, "Service": "Helm",
		"Revision": 1, "IsInstall": true, "IsUpgrade": false,
	}
	set := template.New("set").Option("missingkey=zero")
	set.Funcs(functions(set))
	scopes := map[string]map[string]interface{}{}
	scope(root, root.withValues(each.Values), release, true, scopes, &result)
	paths := []string{}
	for file := range scopes {
		paths = append(paths, file)
	}
	sort.Strings(paths)
	for _, file := range paths {
		if _, err := set.New(file).Parse(scopes[file]["text"].(string)); err != nil {
			return result, err
		}
	}
	for _, file := range paths {
		if strings.HasPrefix(path.Base(file), "_") {
			continue
		}
		var text strings.Builder
		if err := set.ExecuteTemplate(&text, file, scopes[file]["dot"]); err != nil {
			return result, err
		}
		result.Files[file] = text.String()
	}
	return result, nil
}

// scope builds the values that the templates of a chart and its dependencies see.
func scope(c *chart, values, release map[string]interface{}, isRoot bool, scopes map[string]map[string]interface{}, result *rendered) map[string]interface{} {
	result.Values[c.path] = values
	meta := map[string]interface{}{"IsRoot": isRoot}
	for key, value := range c.meta {
		meta[strings.ToUpper(key[:1])+key[1:]] = value
	}
	subcharts := map[string]interface{}{}
	dot := map[string]interface{}{
		"Values": values, "Chart": meta, "Release": release, "Files": c.files, "Subcharts": subcharts,
		"Capabilities": map[string]interface{}{
			"KubeVersion": kube{Version: kubeVersion, Major: "1", Minor: "30"},
			"APIVersions": apiVersions{},
			"HelmVersion": map[string]interface{}{"Version": "v3.18.0"},
		},
	}
	for _, sub := range c.charts {
		subcharts[sub.name()] = scope(sub, values[sub.name()].(map[string]interface{}), release, false, scopes, result)
	}
	for file, text := range c.templates {
		own := map[string]interface{}{"Template": map[string]interface{}{"Name": file, "BasePath": path.Join(c.path, "templates")}}
		for key, value := range dot {
			own[key] = value
		}
		scopes[file] = map[string]interface{}{"text": text, "dot": own}
	}
	return dot
}

type kube struct{ Version, Major, Minor string }

func (k kube) String() string { return k.Version }

type apiVersions struct{}

// Has reports the APIs of every cluster of that version, without those that operators install.
func (apiVersions) Has(version string) bool { return !strings.Contains(version, ".com/") }

func include(set *template.Template) func(string, interface{}) (string, error) {
	depth := 0
	return func(name string, dot interface{}) (string, error) {
		if depth++; depth > 1000 {
			return "", fmt.Errorf("the template %s includes itself", name)
		}
		defer func() { depth-- }()
		var text strings.Builder
		err := set.ExecuteTemplate(&text, name, dot)
		return text.String(), err
	}
}

func tpl(set *template.Template) func(string, interface{}) (string, error) {
	return func(text string, dot interface{}) (string, error) {
		clone, err := set.Clone()
		if err != nil {
			return "", err
		}
		clone.Funcs(functions(clone))
		parsed, err := clone.New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = parsed.Execute(&out, dot)
		return out.String(), err
	}
}

func required(message string, value interface{}) (interface{}, error) {
	if text, isText := value.(string); value == nil || (isText && text == "") {
		return nil, errors.New(message)
	}
	return value, nil
}
