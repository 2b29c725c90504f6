/* Reads pairs of halves, writes the status (int) and the combined feature of each. */
#include <stdio.h>

#include "nnkit_pca_combine.h"

int main(void)
{
    static nnkit_pca_value halves[2][NNKIT_PCA_LENGTH];
    static float feature[NNKIT_PCA_COMPONENTS];
    int status = nnkit_pca_combine(NULL, halves[1], feature);
    fwrite(&status, sizeof status, 1, stdout);
    status = nnkit_pca_combine(halves[0], NULL, feature);
    fwrite(&status, sizeof status, 1, stdout);
    status = nnkit_pca_combine(halves[0], halves[1], NULL);
    fwrite(&status, sizeof status, 1, stdout);
    while (fread(halves, sizeof halves, 1, stdin) == 1) {
        status = nnkit_pca_combine(halves[0], halves[1], feature);
        fwrite(&status, sizeof status, 1, stdout);
        fwrite(feature, sizeof feature, 1, stdout);
    }
    return 0;
}
