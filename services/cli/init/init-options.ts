/** Permitted values of --accept and --network. */
export const CHOICES = {
  accept: ["webhooks", "payments", "both"],
  networks: ["devnet", "base-sepolia"],
} as const;

export type InitOptions = {
  accept?: string;
  preset?: string;
  endpoint?: string;
  jobIndex: number;
  price?: string;
  network: (typeof CHOICES.networks)[number];
  payTo?: string;
  runner?: string;
  redisUrl: string;
  yes?: boolean;
  force?: boolean;
  json?: boolean;
};
