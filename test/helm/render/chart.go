package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A chart as read from its folder, with its dependencies.
type chart struct {
	path      string // in the tree of charts, like app/charts/latchkey
	meta      map[string]interface{}
	values    map[string]interface{}
	templates map[string]string
	files     files
	charts    []*chart
}

func (c *chart) name() string { return c.meta["name"].(string) }

// loadChart reads a chart. Dependencies of the form file://PATH are read from that path, as `helm
// dependency update` would.
func loadChart(dir, parent string) (*chart, error) {
	meta, err := readYaml(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	c := &chart{meta: meta, templates: map[string]string{}, files: files{}}
	c.path = path.Join(parent, c.name())
	if c.values, err = readYaml(filepath.Join(dir, "values.yaml")); err != nil {
		return nil, err
	}
	if err := c.readFiles(dir); err != nil {
		return nil, err
	}
	dependencies, _ := meta["dependencies"].([]interface{})
	for _, each := range dependencies {
		dependency := each.(map[string]interface{})
		for key := range dependency {
			if key != "name" && key != "version" && key != "repository" {
				return nil, fmt.Errorf("%s: the key %s of a dependency is not known here", dir, key)
			}
		}
		repository, _ := dependency["repository"].(string)
		if !strings.HasPrefix(repository, "file://") {
			return nil, fmt.Errorf("%s: only dependencies from file:// are known here", dir)
		}
		sub, err := loadChart(filepath.Join(dir, strings.TrimPrefix(repository, "file://")), path.Join(c.path, "charts"))
		if err != nil {
			return nil, err
		}
		if sub.name() != dependency["name"] || sub.meta["version"] != dependency["version"] {
			return nil, fmt.Errorf("%s: the dependency is %s %s", dir, sub.name(), sub.meta["version"])
		}
		c.charts = append(c.charts, sub)
	}
	return c, nil
}

func (c *chart) readFiles(dir string) error {
	ignored, err := readIgnored(filepath.Join(dir, ".helmignore"))
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, file)
		if ignored(name) {
			return nil
		}
		text, err := os.ReadFile(file)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(name, "templates/"):
			c.templates[path.Join(c.path, name)] = string(text)
		case name == "Chart.yaml", name == "Chart.lock", name == "values.yaml", name == "values.schema.json", name == ".helmignore", strings.HasPrefix(name, "charts/"):
		default:
			c.files[name] = text
		}
		return nil
	})
}

// readIgnored supports the two forms in use: a folder that ends in /, and a pattern of file names.
func readIgnored(file string) (func(string) bool, error) {
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := strings.Fields(string(text))
	return func(name string) bool {
		for _, line := range lines {
			if strings.HasSuffix(line, "/") && strings.HasPrefix(name, line) {
				return true
			}
			if matched, _ := path.Match(line, path.Base(name)); matched {
				return true
			}
		}
		return false
	}, nil
}

// withValues merges a chart's defaults with the values from its parent or the user; null removes a
// default.
func (c *chart) withValues(given map[string]interface{}) map[string]interface{} {
	values := coalesce(given, c.values)
	global, _ := values["global"].(map[string]interface{})
	if global == nil {
		global = map[string]interface{}{}
		values["global"] = global
	}
	for _, sub := range c.charts {
		own, _ := values[sub.name()].(map[string]interface{})
		own = coalesce(own, map[string]interface{}{"global": global})
		values[sub.name()] = sub.withValues(own)
	}
	return values
}

func coalesce(given, defaults map[string]interface{}) map[string]interface{} {
	merged := map[string]interface{}{}
	for key, value := range defaults {
		merged[key] = value
	}
	for key, value := range given {
		table, isTable := value.(map[string]interface{})
		below, hasTable := defaults[key].(map[string]interface{})
		_, hasDefault := defaults[key]
		switch {
		case value == nil && hasDefault:
			delete(merged, key)
		case isTable && hasTable:
			merged[key] = coalesce(table, below)
		default:
			merged[key] = value
		}
	}
	return merged
}
