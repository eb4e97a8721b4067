"""How a platform obtains OAuth credentials: part of the output of `spec`; the kit itself does not use it."""

from typing import Literal

from cdk.base.values import JsonObject
from cdk.declarative.model.component import Component


class OAuthConfigSpecification(Component):
    """Where a platform finds what to ask the user for, and where it saves what it receives.

    Example:
        type: OAuthConfigSpecification
        oauth_user_input_from_connector_config_specification:
          type: object
          properties:
            domain: {type: string, path_in_connector_config: [domain]}
        complete_oauth_output_specification:
          type: object
          properties:
            refresh_token: {type: string, path_in_connector_config: [credentials, refresh_token]}
    """

    oauth_user_input_from_connector_config_specification: JsonObject | None = None
    """The values of the config that are needed before the user is asked for consent."""
    oauth_connector_input_specification: JsonObject | None = None
    """The URLs for consent and for tokens, if the API's flow is not built into the platform."""
    complete_oauth_output_specification: JsonObject | None = None
    """Where in the config the tokens are saved."""
    complete_oauth_server_input_specification: JsonObject | None = None
    """What the platform itself needs, such as its client ID."""
    complete_oauth_server_output_specification: JsonObject | None = None
    """Where in the config the platform's own values are saved."""


class AuthFlow(Component):
    """How a platform obtains credentials for a user.

    Example:
        type: AuthFlow
        auth_flow_type: oauth2.0
        predicate_key: [credentials, auth_type]
        predicate_value: oauth
        oauth_config_specification:
          type: OAuthConfigSpecification
          complete_oauth_output_specification:
            type: object
            properties:
              refresh_token: {type: string, path_in_connector_config: [credentials, refresh_token]}
    """

    auth_flow_type: Literal["oauth2.0", "oauth1.0"] | None = None
    """The OAuth version."""
    predicate_key: list[str] | None = None
    """Path of the config value that decides whether this flow applies."""
    predicate_value: str | None = None
    """The value at `predicate_key` with which this flow applies."""
    oauth_config_specification: OAuthConfigSpecification | None = None
    """Which values the flow needs, and where it saves those that it receives."""
