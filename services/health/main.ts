/*
 * Health check of the container image: exits with 0 if the event loop of the container's process answers. The check
 * does not know which service that process runs, so it requests the probe URL of every service. POSTERN_LIVEZ replaces
 * them with one URL.
 */
const PORTS = { webhooks: 9091, producer: 9092, x402: 9093, pricing: 9094, operator: 9095, runner: 9096 };
const DEADLINE_MS = 2500;

async function answers(url: string): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(DEADLINE_MS) }).catch(() => undefined);
  return answer?.ok === true;
}

const own = process.env["POSTERN_LIVEZ"];
const places =
  own === undefined ? Object.values(PORTS).map((port) => `http://127.0.0.1:${port}/livez`) : [own];
const found = await Promise.all(places.map(answers));
process.exit(found.includes(true) ? 0 : 1);
