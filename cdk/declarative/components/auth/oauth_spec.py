"""How a platform obtains OAuth credentials: part of the output of `spec`; the kit itself does not use it."""

from typing import Literal

from pydantic import Field

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

    oauth_user_input_from_connector_config_specification: JsonObject | None = Field(
        None, description="Which values of the config are needed before the user is asked for consent."
    )
    oauth_connector_input_specification: JsonObject | None = Field(
        None, description="The addresses for consent and for tokens, where the API has no flow that platforms know."
    )
    complete_oauth_output_specification: JsonObject | None = Field(
        None, description="Where in the config the tokens go."
    )
    complete_oauth_server_input_specification: JsonObject | None = Field(
        None, description="What the platform itself must be given, such as its client id."
    )
    complete_oauth_server_output_specification: JsonObject | None = Field(
        None, description="Where in the config the values of the platform go."
    )


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

    auth_flow_type: Literal["oauth2.0", "oauth1.0"] | None = Field(None, description="The protocol.")
    predicate_key: list[str] | None = Field(None, description="The value of the config that says whether it applies.")
    predicate_value: str | None = Field(None, description="What that value then is.")
    oauth_config_specification: OAuthConfigSpecification | None = Field(None, description="Where values come and go.")
