import { Gauge } from 'prom-client';

export const fleetSidecars = new Gauge({
  name: 'latchkey_fleet_sidecars',
  help: 'Sidecars on the same store that are up, by their heartbeats.',
  aggregator: 'max',
});

export const fleetConfigs = new Gauge({
  name: 'latchkey_fleet_configurations',
  help: 'Different configurations that the sidecars on the same store run; 1 when all run the same.',
  aggregator: 'max',
});
