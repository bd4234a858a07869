// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The users that the components themselves are; RBAC's bootstrap roles are bound
// to the second and third.
const (
	Admin           = "admin"
	controllersUser = "system:kube-controller-manager"
	schedulerUser   = "system:kube-scheduler"
	kwokUser        = "kwok"
)

// writeTokens writes the API server's token file and returns each user's token.
// Only admin and kwok may do everything; names given in others may do nothing
// until a test binds roles to them.
func writeTokens(path string, others []string) (map[string]string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write tokens: %w", err)
	}
	defer f.Close()
	tokens := map[string]string{}
	w := csv.NewWriter(f)
	for _, name := range append([]string{Admin, kwokUser, controllersUser, schedulerUser}, others...) {
		group := ""
		if name == Admin || name == kwokUser {
			group = "system:masters"
		}
		tokens[name] = rand.Text()
		w.Write([]string{tokens[name], name, name, group})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return nil, fmt.Errorf("write tokens: %w", err)
	}
	return tokens, nil
}

// ConfigFor returns a client configuration of a user: Admin, or one of
// Options.Users. It panics on any other name.
func (c *Cluster) ConfigFor(user string) *rest.Config {
	token, known := c.tokens[user]
	if !known {
		panic("cluster: no user " + user + " in Options.Users")
	}
	return c.withToken(token)
}

// withToken returns a configuration without a client-side rate limit.
func (c *Cluster) withToken(token string) *rest.Config {
	return &rest.Config{Host: c.URL, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca}}
}

// KubeconfigFor writes the user's kubeconfig and returns its path.
func (c *Cluster) KubeconfigFor(user string) (string, error) {
	return WriteKubeconfig(c.state, user, c.ConfigFor(user))
}

// WriteKubeconfig writes config as a file in dir, for binaries that read one.
func WriteKubeconfig(dir, name string, config *rest.Config) (string, error) {
	path := filepath.Join(dir, strings.ReplaceAll(name, ":", "-")+".kubeconfig")
	file := api.NewConfig()
	file.Clusters["weir"] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &api.AuthInfo{Token: config.BearerToken}
	file.Contexts["weir"] = &api.Context{Cluster: "weir", AuthInfo: name}
	file.CurrentContext = "weir"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return path, nil
}

// ServiceAccount makes the account and its namespace where they are missing and
// returns a configuration with a token of it, as a pod would have. Its name in the
// audit log is system:serviceaccount:NAMESPACE:NAME.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	if err := c.Namespace(ctx, namespace); err != nil {
		return nil, err
	}
	accounts := c.Client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create service account %s/%s: %w", namespace, name, err)
	}
	request, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return c.withToken(request.Status.Token), nil
}

// Namespace creates the namespace where it is missing.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}
