// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect returns how the API server is reached: as kubeconfig says, or as the
// service account of this pod where it is empty. agent is the client's name in
// the server's logs.
func Connect(kubeconfig, agent string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("--kubeconfig: none: required outside of a cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.UserAgent = agent
	return config, nil
}
