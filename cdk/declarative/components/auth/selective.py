"""SelectiveAuthenticator: the config says how to authenticate."""

from pydantic import Field

from cdk.base.errors import ConfigError
from cdk.base.suggestions import did_you_mean
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import AnyAuthenticator
from cdk.rest import Authenticator
from cdk.rest.http.json_path import path


class SelectiveAuthenticator(AnyAuthenticator):
    """One of several authenticators, which a value of the config names.

    Example:
        type: SelectiveAuthenticator
        authenticator_selection_path: [credentials, auth_type]
        authenticators:
          token:
            type: BearerAuthenticator
            api_token: "{{ config['credentials']['token'] }}"
          none:
            type: NoAuth
    """

    authenticator_selection_path: list[str] = Field(min_length=1, description="Path of that value in the config.")
    authenticators: dict[str, AnyAuthenticator] = Field(description="The authenticators, by name.")

    def build(self, ctx: BuildContext) -> Authenticator | None:
        """The one that the config names. Raises ConfigError: it names none."""
        where = " > ".join(self.authenticator_selection_path)
        name = path(*self.authenticator_selection_path)(ctx.config)
        known = ", ".join(sorted(self.authenticators))
        if name is None:
            raise ConfigError(f"the config has no value at {where}, which says how to authenticate; set one of {known}")
        chosen = self.authenticators.get(str(name))
        if chosen is None:
            hint = did_you_mean(str(name), self.authenticators)
            raise ConfigError(f"found {name!r} at {where} of the config, expected one of {known}{hint}")
        return chosen.build(ctx)
