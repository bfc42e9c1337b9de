/** Other ways to set up a preset's sender, each with the endpoint that it needs. They stand in the preset's section. */
export const VARIANTS: Readonly<Record<string, readonly (readonly [when: string, endpoint: string])[]>> = {
  grafana: [
    [
      "If Grafana also signs a time (a timestamp header is set beside the secret), name that header:",
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
