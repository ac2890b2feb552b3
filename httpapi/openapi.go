package httpapi

import _ "embed"

// description of the API. openapi_test.go holds it against the code.
//
//go:embed openapi.yaml
var description string

func (s *Server) openAPI(*call) (answer, error) {
	return answer{text: description, contentType: "application/yaml"}, nil
}
