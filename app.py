"""The CDK app: reads tidegate.toml and builds the stack that it describes.

Context `tidegate:config` names another file; `tidegate:local=true` leaves out what only other machines need;
`tidegate:import=true` leaves all but what outlives a stack, for `cdk import`.
"""

import sys
from pathlib import Path

import aws_cdk as cdk

from infra.bundling import BundlingError
from infra.stack import TidegateStack
from tidegate.settings import DEFAULT_FILE, SettingsError, load

SOURCES = Path(__file__).resolve().parent

# Here and not in cdk.json, so that the app gives the same template with and without the CDK CLI.
CONTEXT = {
    "@aws-cdk/aws-iam:minimizePolicies": True,
    # What a role may do stays within IAM's limits (tidegate.settings.scale). The CDK cannot know how long an ARN is,
    # takes each for 150 characters, and would move statements to managed policies, which the deployer may not create.
    "@aws-cdk/aws-iam.arnSizeEstimate": 1,
    "aws:cdk:enable-asset-metadata": True,
    "aws:cdk:enable-path-metadata": True,
}


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> int:
    """Write the assembly to where the CDK CLI, or CDK_OUTDIR, wants it; 2 if the configuration is at fault."""
    app = cdk.App(analytics_reporting=False, context=CONTEXT)
    config = Path(app.node.try_get_context("tidegate:config") or SOURCES / DEFAULT_FILE)
    local, importing = (
        str(app.node.try_get_context(f"tidegate:{name}")).lower() == "true" for name in ("local", "import")
    )
    try:
        TidegateStack(app, load(config, warn=_warn), sources=SOURCES, config=config, local=local, importing=importing)
        if not local:
            _check(app)
        app.synth()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except BundlingError as error:
        print(error, file=sys.stderr)
        return 1
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
        # CDK has said what was found, and where
        return 1
    return 0


def _check(app: cdk.App) -> None:
    """Have cdk-nag look at what is to be deployed: half a second, and a finding that nobody answers for stops it."""
    from cdk_nag import AwsSolutionsChecks  # loads another module into Node, which the local stack need not wait for

    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))


if __name__ == "__main__":
    sys.exit(main())
