/** Other ways to set up a preset's sender, each with the endpoint that it needs. The preset's section lists them. */
export const VARIANTS: Readonly<Record<string, readonly (readonly [when: string, endpoint: string])[]>> = {
  polar: [
    [
      "Older secrets are text. If Polar's API says `uses_standard_webhook_signature: false` of the endpoint, add one key:",
      `[[endpoints]]
path = "/hooks/polar-old"
job_id = 1
preset = "polar"
secret = "env:POSTERN_POLAR_SECRET"

[endpoints.signature]
secret_format = "text"`,
    ],
  ],
  "azure-event-grid": [
    [
      "Event Grid can send a token of Microsoft Entra instead. Set your tenant, and your application as the audience. `appid` is Event Grid's application. For tokens of version 2, the issuer is `https://login.microsoftonline.com/<tenant>/v2.0`, and the claim is `azp`:",
      `[[endpoints]]
path = "/hooks/azure-event-grid-entra"
job_id = 1
preset = "azure-event-grid"
auth = "jwt"
issuer = "https://sts.windows.net/00000000-0000-0000-0000-000000000000/"
audience = "api://11111111-1111-1111-1111-111111111111"
jwks = "https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/discovery/v2.0/keys"
claims = { appid = "4962773b-9cdb-44cf-a8bf-237846a00ab7" }`,
    ],
  ],
  grafana: [
    [
      "If Grafana also signs a time, name the timestamp header that is set beside the secret:",
      `[[endpoints]]
path = "/hooks/grafana-timed"
job_id = 1
preset = "grafana"
secret = "env:POSTERN_GRAFANA_SECRET"

[endpoints.signature]
signed = "{timestamp}:{body}"

[endpoints.signature.timestamp]
header = "X-Grafana-Alerting-Timestamp"
unit = "s"
past_secs = 300
future_secs = 300`,
    ],
    [
      "A Grafana before version 12 signs nothing. Set its Authorization header instead, with the scheme `Bearer` and the secret as credentials:",
      `[[endpoints]]
path = "/hooks/grafana-bearer"
job_id = 1
preset = "grafana"
auth = "bearer"
secret = "env:POSTERN_GRAFANA_SECRET"`,
    ],
  ],
};
