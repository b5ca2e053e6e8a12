/** Settings of the plugin: where the evaluator is. */
import { ConfigStore, PluginSettingsDetailsProps } from '@kinvolk/headlamp-plugin/lib';
import { NameValueTable } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import TextField from '@mui/material/TextField';
import { EvaluatorService, isName, SHIPPED } from './evaluator';

/** The name of the package, by which Headlamp keeps the settings. */
export const PLUGIN = 'headlamp-plimsoll';

const useConfig = new ConfigStore<Partial<EvaluatorService>>(PLUGIN).useConfig();

/** Returns where the evaluator is: as shipped, unless the user entered something else. */
export function useEvaluatorService(): EvaluatorService {
  const given = useConfig();
  return {
    namespace: given?.namespace || SHIPPED.namespace,
    service: given?.service || SHIPPED.service,
    port: given?.port || SHIPPED.port,
  };
}

const FIELDS: { field: keyof EvaluatorService; label: string; help: string }[] = [
  { field: 'namespace', label: 'Namespace', help: 'of the evaluator, in every cluster' },
  { field: 'service', label: 'Service', help: 'name of its Service' },
  { field: 'port', label: 'Port', help: 'name or number of the ops port' },
];

export function Settings({ data, onDataChange }: PluginSettingsDetailsProps) {
  return (
    <NameValueTable
      rows={FIELDS.map(({ field, label, help }) => {
        const given = String(data?.[field] ?? '');
        const valid = given === '' || isName(given);
        return {
          name: label,
          value: (
            <TextField
              inputProps={{ 'aria-label': label }}
              placeholder={SHIPPED[field]}
              value={given}
              error={!valid}
              helperText={valid ? help : 'not a name: lower case letters, digits, - and .'}
              onChange={event => onDataChange?.({ ...data, [field]: event.target.value.trim() })}
              variant="standard"
              size="small"
            />
          ),
        };
      })}
    />
  );
}
