"""Checks the manifest against Kubernetes' own schema, and that its two counts agree.

    pip install kubernetes-validate pyyaml
    python deploy/kubernetes/check.py
"""

from pathlib import Path

import kubernetes_validate
import yaml

manifest = yaml.safe_load(Path(__file__).with_name("certify.yaml").read_text())
version = kubernetes_validate.latest_version()
kubernetes_validate.validate(manifest, version, strict=True)
spec = manifest["spec"]
(container,) = spec["template"]["spec"]["containers"]
shards = {entry["name"]: entry["value"] for entry in container["env"]}["HEATSMOOTH_SHARDS"]
assert spec["completionMode"] == "Indexed", "without it there is no JOB_COMPLETION_INDEX"
assert int(shards) == spec["completions"], f"HEATSMOOTH_SHARDS {shards}, completions {spec['completions']}"
print(f"certify.yaml is a Job of Kubernetes {version} with {shards} shards")
