/** Draws counts over time as small bars, the newest on the right. `label` describes them in words. */
export function Sparkline({
  values,
  label,
  tone,
}: {
  values: readonly number[];
  label: string;
  tone?: string;
}) {
  const most = Math.max(1, ...values);
  const width = 100 / Math.max(1, values.length);
  return (
    <svg
      class={`sparkline ${tone ?? ""}`}
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      {values.map((value, i) => {
        const height = value === 0 ? 0 : Math.max(2, (22 * value) / most);
        return (
          <rect key={i} x={i * width} y={24 - height} width={Math.max(0.5, width - 0.6)} height={height} />
        );
      })}
    </svg>
  );
}
